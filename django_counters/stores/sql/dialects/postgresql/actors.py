"""Actors in PostgreSQL: one statement makes the row and the change."""

from __future__ import annotations

from django_counters.stores.sql.dialects.actors import Actors
from django_counters.stores.sql.dialects.postgresql.statements import Shards, SlotStatements
from django_counters.stores.sql.dialects.spread import SpreadStatements
from django_counters.stores.sql.dialects.tables import Table
from django_counters.stores.sql.dialects.totals import NamedTotals, Totals

_ACTOR = "django_counters_actor"
_CHANGE = "django_counters_change"
# Nothing is looked for where it does not hold: the server asks it once, before all else.
_COUNTS = f"(SELECT at FROM {_ACTOR}) IS NOT NULL"


class PostgresActors(Actors):
    """Counts in functions where it can: they keep their plans."""

    def totals(self, sql: Totals, table: Table, one: str, by: int, *, alone: bool) -> str | None:
        """One statement for a total."""
        if isinstance(sql, NamedTotals) and alone:
            return f"SELECT django_counters_once_text(%s, %s, %s, %s, {by}, %s)"
        if isinstance(sql, NamedTotals):
            return f"SELECT v, p FROM django_counters_once(%s, %s, %s, %s, {by}, %s)"
        held = self.hold(table) if by < 0 else ""
        return _together(sql.by_one(by, _COUNTS), ("v",), one, by, held)

    def spread(
        self, sql: SpreadStatements, table: Table, one: str, by: int, *, alone: bool
    ) -> str | None:
        """One statement for increments that wait."""
        if isinstance(sql, Shards) and alone:
            call = f"django_counters_once_shard_text(%s, %s, %s, %s, {by}, {sql.cap}, %s)"
            return f"SELECT {call}"
        if isinstance(sql, Shards):
            call = f"django_counters_once_shard(%s, %s, %s, %s, {by}, {sql.cap}, %s)"
            return f"SELECT v, n, p FROM {call}"
        if isinstance(sql, SlotStatements):
            return _together(sql.under(f" AND {_COUNTS}"), ("v", "n"), one, by, self.hold(table))
        return None

    def _text(self, key: str) -> str:
        return f'{key}::text COLLATE "C"'


def _together(change: str, columns: tuple[str, ...], one: str, by: int, held: str) -> str:
    """The row of an actor, then a change, then what was there where nothing was changed.

    A change that is refused gives the row back: it is as it was.
    """
    last = columns[-1]
    value = "w.v" if last == "v" else f"CASE WHEN w.{last} IS NOT NULL THEN w.v END"
    given = ", ".join((value, *(f"w.{column}" for column in columns[1:])))
    present = f"SELECT o.total + COALESCE(o.waits, 0) FROM ({one}) o (total, waits)"
    undone = f"django_counters_unclaim(c.m, c.k, c.a, c.at, {by})"
    return (
        f"WITH {_ACTOR} (m, k, a, at) AS MATERIALIZED (SELECT m, k, a, "
        f"django_counters_claim(m, k, a, at, {by}) "
        "FROM (VALUES (%s::int, %s::text, %s::text, %s::timestamptz)) g (m, k, a, at)"
        f"{f', ({held}) h' if held else ''}), "
        f"{_CHANGE} ({', '.join(columns)}) AS MATERIALIZED ({change}) "
        f"SELECT {given}, CASE WHEN c.at IS NULL THEN ({present}) "
        f"WHEN w.{last} IS NULL THEN {undone} END FROM {_ACTOR} c LEFT JOIN {_CHANGE} w ON true"
    )
