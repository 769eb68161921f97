"""Claims in PostgreSQL: the second to insert a name waits for the first one to commit or not."""

from __future__ import annotations

from django_counters.stores.sql.dialects.claims import ClaimSql
from django_counters.stores.sql.dialects.postgresql.ledger_functions import AHEAD
from django_counters.stores.sql.dialects.tables import DELTAS, HORIZON, TOKENS

_WINDOW = f"COALESCE((SELECT token_window FROM {HORIZON} WHERE id = 1), INTERVAL '48 hours')"


class PostgresClaims(ClaimSql):
    """Claims of PostgreSQL."""

    # A statement of its own, so that it sees the entry of a transaction that the claim has waited
    # for. Whoever appends an entry claims its token first; see `ledger_functions`.
    take_back = (
        f"DELETE FROM {TOKENS} WHERE digest = %s::bytea AND EXISTS (SELECT FROM {DELTAS} d "
        "WHERE d.token = %s::uuid AND d.created_at = %s::timestamptz) RETURNING 1"
    )
    try_alone = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
    now = "CLOCK_TIMESTAMP()"
    fresh = (
        f"(token IS NULL OR at > CLOCK_TIMESTAMP() - {_WINDOW} "
        f"AND at < CLOCK_TIMESTAMP() + {AHEAD})"
    )
    holding = " FOR NO KEY UPDATE"
    among_found = "ctid = ANY(ARRAY({} FOR UPDATE SKIP LOCKED))"
    row = "ctid"

    def _among(self, kind: str) -> str:
        return f"= ANY(%s::{kind}[])"

    def _typed(self, kind: str) -> str:
        return f"%s::{kind}"
