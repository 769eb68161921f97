"""Claims in PostgreSQL: the second to insert a name waits for the first one to commit or not."""

from __future__ import annotations

from django_counters.stores.sql.dialects.claims import ClaimSql
from django_counters.stores.sql.dialects.postgresql.ledger_functions import AHEAD
from django_counters.stores.sql.dialects.tables import DELTAS, HORIZON

_WINDOW = f"COALESCE((SELECT token_window FROM {HORIZON} WHERE id = 1), INTERVAL '48 hours')"


class PostgresClaims(ClaimSql):
    """Claims of PostgreSQL."""

    wait = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))::text"
    try_alone = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
    now = "CLOCK_TIMESTAMP()"
    fresh = (
        f"(token IS NULL OR at > CLOCK_TIMESTAMP() - {_WINDOW} "
        f"AND at < CLOCK_TIMESTAMP() + {AHEAD} AND NOT EXISTS "
        f"(SELECT FROM {DELTAS} d WHERE d.token = g.token AND d.created_at = g.at))"
    )
    holding = " FOR NO KEY UPDATE"
    among_found = "ctid = ANY(ARRAY({} FOR UPDATE SKIP LOCKED))"
    row = "ctid"

    def _among(self, kind: str) -> str:
        return f"= ANY(%s::{kind}[])"

    def _typed(self, kind: str) -> str:
        return f"%s::{kind}"
