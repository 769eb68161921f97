"""Cells in PostgreSQL: added by the statement of their change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django_counters.measure import SHARD, Kind
from django_counters.stores.sql.dialects.cells import Cells, array, insert

# The code of an error of the function of a guard. Its detail has numbers.
GUARD_REFUSED = "QC001"


def function_of(kind: Kind) -> str:
    """The name of the function that adds to rows of a kind."""
    return f"django_counters_add_{kind.name}"


class PostgresCells(Cells):
    """Adds to cells."""

    join = True

    def apart(self, kind: Kind) -> str:
        """Add to cells of a shard that no other transaction uses."""
        shard = {SHARD: "(SELECT django_counters_cell_shard())"}
        columns = ", ".join(shard.get(column, column.letter) for column in kind.columns)
        return insert(kind, f"SELECT {columns} FROM {self.given(kind)}")

    def beside(self, change: str, columns: Sequence[str], kinds: Sequence[Kind]) -> str:
        """A change and its effects. The change comes first, for they are made from its rows."""
        shard = {SHARD: "c.n" if "n" in columns else "0"}
        same = " AND u.k = c.k" if "k" in columns else ""
        # The last part, where an actor counts once, gives the value where nothing was counted.
        told = [column for column in columns if column != "p"]
        counted = " AND ".join(f"c.{column} IS NOT NULL" for column in told) + same
        parts = [f"django_counters_change ({', '.join(columns)}) AS MATERIALIZED ({change})"]
        for number, kind in enumerate(kinds):
            values = ", ".join(shard.get(one, f"u.{one.letter}") for one in kind.columns)
            source = f"SELECT {values} FROM django_counters_change c, {self.given(kind)}"
            first = self._after(kind, number) if number else ""
            added = insert(kind, f"{source} WHERE {counted}{first}")
            parts.append(f"django_counters_effects_{number} AS ({added} RETURNING 1)")
        return f"WITH {', '.join(parts)} SELECT * FROM django_counters_change"

    def _after(self, kind: Kind, number: int) -> str:
        """In one order, and after the kind before: to count its rows has the database add these."""
        order = (
            f"u.{column.letter}" + (' COLLATE "C"' if column.type == "text" else "")
            for column in kind.keys
        )
        before = f"(SELECT COUNT(*) FROM django_counters_effects_{number - 1}) >= 0"
        return f" AND {before} ORDER BY {', '.join(order)}"

    def after(self, change: str, columns: Sequence[str], kinds: Sequence[Kind]) -> str:
        """The same for one counter: a function keeps its plan, and needs few parameters."""
        return self._called("{}", change, columns, kinds)

    def guarded(self, change: str, columns: Sequence[str], kinds: Sequence[Kind], call: str) -> str:
        """The same, and a guard looks at it."""
        return self._called(call, change, columns, kinds)

    def _called(self, last: str, change: str, columns: Sequence[str], kinds: Sequence[Kind]) -> str:
        shard = "c.n" if "n" in columns else "0"
        call = "{}"
        for kind in kinds:
            given = ", %s" * len(set(kind.letters) - {"n"})
            call = f"{function_of(kind)}({call}, {shard}{given})"
        call = last.format(call)
        if change.startswith("SELECT django_counters_add("):
            # To plan what is one expression takes less time.
            return "SELECT " + call.format(change.removeprefix("SELECT "))
        values = (call.format("c.v"), *(f"c.{column}" for column in columns[1:]))
        counted = f"WITH c ({', '.join(columns)}) AS MATERIALIZED ({change})"
        return f"{counted} SELECT {', '.join(values)} FROM c"

    def arrange(self, kind: Kind, rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
        """Arrays as texts: the driver takes longer for each value of a list."""
        types = (column.type for column in kind.columns)
        return tuple(
            _texts(column) if of == "text" else array(column)
            for of, column in zip(types, zip(*rows, strict=True), strict=True)
        )

    def alike(self, rows: Mapping[Kind, Sequence[Sequence[Any]]]) -> tuple[Any, ...] | None:
        """The parameters of the functions of rows of one counter, by kind, or None."""
        params: list[Any] = []
        for kind, of_kind in rows.items():
            if not kind.called:
                return None
            columns = dict(zip(kind.letters, zip(*of_kind, strict=True), strict=True))
            varied = [array(columns.pop(letter)) for letter in kind.varied]
            columns.pop("n", None)
            if len(of_kind) > 1 and any(len(set(column)) > 1 for column in columns.values()):
                return None
            params += (*(column[0] for column in columns.values()), *varied)
        return tuple(params)


def _texts(values: Iterable[str]) -> str:
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    joined = '","'.join(quoted)
    return f'{{"{joined}"}}'
