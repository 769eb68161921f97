"""Cells in PostgreSQL: added by the statement of their change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from django_counters.stores.sql.dialects.cells import Cells, upsert


class PostgresCells(Cells):
    """Adds to cells."""

    join = True

    @cached_property
    def apart(self) -> str:
        """Add to cells of a shard that no other transaction uses."""
        shard = "(SELECT django_counters_cell_shard())"
        return upsert(f"SELECT m, k, p, s, t, {shard}, d FROM {self.given}")

    def beside(self, change: str, columns: Sequence[str]) -> str:
        """A change and its cells. The change comes first, for the cells are made from its rows."""
        shard = "c.n" if "n" in columns else "0"
        same = " AND u.k = c.k" if "k" in columns else ""
        counted = " AND ".join(f"c.{column} IS NOT NULL" for column in columns)
        cells = (
            f"SELECT u.m, u.k, u.p, u.s, u.t, {shard}, u.d "
            f"FROM django_counters_change c, {self.given} WHERE {counted}{same}"
        )
        return (
            f"WITH django_counters_change ({', '.join(columns)}) AS MATERIALIZED ({change}), "
            f"django_counters_cells AS ({upsert(cells)}) SELECT * FROM django_counters_change"
        )

    def after(self, change: str, columns: Sequence[str]) -> str:
        """The same for one counter: a function keeps its plan, and needs few parameters."""
        shard = "c.n" if "n" in columns else "0"
        call = f"django_counters_cells({{}}, {shard}, %s, %s, %s, %s, %s, %s)"
        if change.startswith("SELECT django_counters_add("):
            # To plan what is one expression takes less time.
            return "SELECT " + call.format(change.removeprefix("SELECT "))
        values = (call.format("c.v"), *(f"c.{column}" for column in columns[1:]))
        given = f"WITH c ({', '.join(columns)}) AS MATERIALIZED ({change})"
        return f"{given} SELECT {', '.join(values)} FROM c"

    def arrange(self, rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
        """Arrays as texts: the driver takes longer for each value of a list."""
        measures, keys, periods, starts, tags, shards, values = zip(*rows, strict=True)
        known = {start: str(start) for start in set(starts)}
        moments = [known[start] for start in starts]
        return (
            *(_array(measures), _texts(keys), _array(periods), _array(moments)),
            *(_texts(tags), _array(shards), _array(values)),
        )

    def alike(self, rows: Sequence[Sequence[Any]]) -> tuple[Any, ...] | None:
        """The parameters of cells of one counter that differ by their periods alone, or None."""
        measure, key, _, _, tags, _, by = rows[0]
        if any(row[0] != measure or row[4] != tags or row[6] != by for row in rows):
            return None
        periods, starts = _array([row[2] for row in rows]), _array([row[3] for row in rows])
        return measure, key, tags, by, periods, starts


def _array(values: Iterable[object]) -> str:
    """An array of what needs no quotes."""
    return f"{{{','.join(map(str, values))}}}"


def _texts(values: Iterable[str]) -> str:
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    joined = '","'.join(quoted)
    return f'{{"{joined}"}}'
