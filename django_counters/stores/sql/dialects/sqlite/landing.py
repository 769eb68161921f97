"""Landings in SQLite: one writer at a time, so it is enough to be the writer from the start."""

from __future__ import annotations

from django_counters.stores.sql.dialects.landing import BATCHES, Landing


class SqliteLanding(Landing):
    """The statements that bring generations of increments into the totals."""

    # A reader that becomes a writer is refused where another transaction has written meanwhile.
    # This changes no row, but a transaction that executes it is the writer.
    begin = f"UPDATE {BATCHES} SET slot = slot WHERE generation = ''"
