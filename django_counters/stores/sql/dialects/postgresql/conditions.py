"""Conditions in PostgreSQL: one statement makes the row and the change."""

from __future__ import annotations

from django_counters.conditions import ConditionKind
from django_counters.stores.sql.dialects.conditions import Conditions
from django_counters.stores.sql.dialects.postgresql.statements import Shards, SlotStatements
from django_counters.stores.sql.dialects.spread import SpreadStatements
from django_counters.stores.sql.dialects.tables import Table
from django_counters.stores.sql.dialects.totals import NamedTotals, Totals

_CHANGE = "django_counters_change"


class PostgresConditions(Conditions):
    """Counts in functions where it can: they keep their plans."""

    def totals(
        self, kind: ConditionKind, sql: Totals, table: Table, one: str, by: int, *, alone: bool
    ) -> str | None:
        if not kind.claim:
            return None
        row = ", ".join("%s" for _ in kind.columns)
        if kind.whole and isinstance(sql, NamedTotals):
            return (
                f"SELECT {kind.whole}_text({row}, {by}, %s)"
                if alone
                else f"SELECT v, p FROM {kind.whole}({row}, {by}, %s)"
            )
        if isinstance(sql, NamedTotals):
            change, held = f"SELECT django_counters_add({by}, %s, %s) WHERE {_counts(kind)}", ""
        else:
            change, held = sql.by_one(by, _counts(kind)), self.hold(table) if by < 0 else ""
        return _together(kind, table, change, ("v",), one, by, held)

    def spread(
        self,
        kind: ConditionKind,
        sql: SpreadStatements,
        table: Table,
        one: str,
        by: int,
        *,
        alone: bool,
    ) -> str | None:
        if not kind.claim:
            return None
        row = ", ".join("%s" for _ in kind.columns)
        if isinstance(sql, Shards) and kind.whole:
            call = f"{kind.whole}_shard{'_text' if alone else ''}({row}, {by}, {sql.cap}, %s)"
            return f"SELECT {call}" if alone else f"SELECT v, n, p FROM {call}"
        if isinstance(sql, Shards):
            change, held = f"{sql.add} WHERE {_counts(kind)}", ""
        elif isinstance(sql, SlotStatements):
            change, held = sql.under(f" AND {_counts(kind)}"), self.hold(table)
        else:
            return None
        return _together(kind, table, change, ("v", "n"), one, by, held)


def _name(kind: ConditionKind) -> str:
    return f"django_counters_{kind.name}"


def _counts(kind: ConditionKind) -> str:
    """Nothing is looked for where it does not hold: the server asks it once, before all else."""
    return f"(SELECT {kind.columns[-1].letter} FROM {_name(kind)}) IS NOT NULL"


def _together(
    kind: ConditionKind,
    table: Table,
    change: str,
    columns: tuple[str, ...],
    one: str,
    by: int,
    held: str,
) -> str:
    """A row, then a change, then the present value if nothing was changed.

    A change that is refused leaves the row as it was.
    """
    letters = [column.letter for column in kind.columns]
    row, made, last = ", ".join(letters), letters[-1], columns[-1]
    values = ", ".join(f"%s::{column.type}" for column in kind.columns)
    value = "w.v" if last == "v" else f"CASE WHEN w.{last} IS NOT NULL THEN w.v END"
    given = ", ".join((value, *(f"w.{column}" for column in columns[1:])))
    # A record without a total is missing. A named counter may have shards alone.
    total = "o.total" if table.pending.record else "COALESCE(o.total, 0)"
    present = f"SELECT {total} + COALESCE(o.waits, 0) FROM ({one}) o (total, waits)"
    undone = f"{kind.unclaim}({', '.join(f'c.{letter}' for letter in letters)}, {by})"
    return (
        f"WITH {_name(kind)} ({row}) AS MATERIALIZED (SELECT {', '.join(letters[:-1])}, "
        f"{kind.claim}({row}, {by}) FROM (VALUES ({values})) g ({row})"
        f"{f', ({held}) h' if held else ''}), "
        f"{_CHANGE} ({', '.join(columns)}) AS MATERIALIZED ({change}) "
        f"SELECT {given}, CASE WHEN c.{made} IS NULL THEN ({present}) "
        f"WHEN w.{last} IS NULL THEN {undone} END FROM {_name(kind)} c "
        f"LEFT JOIN {_CHANGE} w ON true"
    )
