"""Claims in SQLite: one writer at a time, so no transaction claims the same meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django_counters.stores.sql.dialects.claims import ClaimSql
from django_counters.stores.sql.dialects.sqlite.ledger import NOW
from django_counters.stores.sql.dialects.tables import DELTAS, HORIZON

_WINDOW = f"(COALESCE((SELECT token_window FROM {HORIZON}), 172800000000) / 1000000)"


class SqliteClaims(ClaimSql):
    """Claims of SQLite."""

    now = NOW
    fresh = (
        "(token IS NULL OR at > STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', "
        f"'-' || {_WINDOW} || ' seconds') "
        "AND at < STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', '+1 hour') "
        f"AND NOT EXISTS (SELECT 1 FROM {DELTAS} d WHERE d.token = g.token))"
    )
    among_found = "rowid IN ({})"
    row = "rowid"

    def values(self, rows: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """Texts, where there are no types."""
        return [_plain(given) for row in rows for given in row]

    def _among(self, kind: str) -> str:  # noqa: ARG002 - values have types, columns do not
        return "IN (SELECT value FROM json_each(%s))"

    def _typed(self, kind: str) -> str:  # noqa: ARG002
        return "%s"


def _plain(given: Any) -> Any:
    if isinstance(given, datetime):
        return str(given.astimezone(UTC).replace(tzinfo=None))
    return given.hex if isinstance(given, UUID) else given
