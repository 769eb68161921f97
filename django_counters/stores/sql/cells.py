"""Cells in one database: added together with the change that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import Error, connections

from django_counters import clock
from django_counters.effects import kinds
from django_counters.measure import KEY, Kind
from django_counters.stores.base import NoRoom
from django_counters.stores.sql.session import Session
from django_counters.types import Cell, Delta, Sums

# Names of the columns of a change: see `Cells.beside`.
ONE, NUMBERED = ("v",), ("v", "n")
CONDITION, NUMBERED_CONDITION = ("v", "p"), ("v", "n", "p")
MANY, MANY_NUMBERED = ("k", "v"), ("k", "v", "n")
_Rows = Mapping[Kind, list[tuple[Any, ...]]]
_Make = Callable[..., str]


class CellPart(NamedTuple):
    """The number that a shard of a cell has."""

    cell: Cell
    shard: int
    by: int


class SqlCells:
    """Makes the effects of changes. Holds no connection and no number.

    Each writer adds to totals first, then to each kind of effects, and to those of a kind in one
    order: so no two of them wait for each other.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.dialect.cells
        # One for each statement that changes counters of a table, and the kinds of its effects.
        self._texts: dict[tuple[Any, ...], str] = {}

    def run(
        self, sql: str, params: Sequence[Any], columns: Sequence[str], deltas: Sequence[Delta]
    ) -> Sequence[tuple[Any, ...]]:
        """Execute the statement of a change, and make the effects of the counted changes.

        All of it is one step. On PostgreSQL it is one statement: the change first, so that a
        transaction that adds to the cells of a counter without shards holds its total.

        Raises:
            NoRoom: a guard refuses it, and `asks_guards`.
        """
        if not any(delta.effects for delta in deltas):
            return self._session.run(sql, params)
        if self._sql.join:
            text, effects = self._joined(sql, columns, deltas)
            try:
                return self._session.run(text, (*params, *effects))
            except Error as error:
                sums = self._session.dialect.guard_numbers(error)
                if sums is None:
                    raise
                raise NoRoom(sums) from error
        with self._session.all_or_nothing():
            rows = self._session.run(sql, params)
            # A change of one counter that is refused has no row, or none with a value.
            if rows and None not in rows[0]:
                self.add(deltas)
        return rows

    def asks_guards(self, delta: Delta) -> bool:
        """Whether `run` refuses by itself what a guard does not admit."""
        effects = delta.effects
        return self._sql.join and bool(effects) and all(one.cell.kind.called for one in effects)

    def _joined(
        self, sql: str, columns: Sequence[str], deltas: Sequence[Delta]
    ) -> tuple[str, Sequence[Any]]:
        """One statement of a change and its effects, and the parameters of these."""
        rows = self._rows(_parts(deltas))
        kinds = tuple(rows)
        alike = self._sql.alike(rows) if columns[0] == "v" else None
        if alike is None:
            text = self._text(self._sql.beside, sql, columns, kinds)
            return text, [p for kind in kinds for p in self._sql.arrange(kind, rows[kind])]
        guard = deltas[0].guard
        if guard is None:
            return self._text(self._sql.after, sql, columns, kinds), alike
        text = self._text(self._sql.guarded, sql, columns, kinds, guard.call)
        return text, (*alike, *guard.parameters(str(deltas[0].key), self.shown()))

    def _text(
        self, make: _Make, sql: str, columns: Sequence[str], kinds: Sequence[Kind], *call: str
    ) -> str:
        wanted = make.__name__, sql, kinds, *call
        known = self._texts.get(wanted)
        if known is None:
            known = self._texts[wanted] = make(sql, columns, kinds, *call)
        return known

    def add(self, deltas: Sequence[Delta], *, apart: bool = False) -> None:
        """Make the effects of deltas whose totals are changed by another statement.

        All writers add in one order, so that no two of them wait for each other. ``apart``: to a
        shard that no other transaction uses just now.
        """
        self._add(self._rows(_parts(deltas)), self._sql.apart if apart else self._sql.add)

    def add_sums(self, sums: Sums[str]) -> None:
        """Do the same for sums by key and cell."""
        parts = ((key, cell, by) for (key, cell), by in sums.items() if cell is not None)
        self._add(self._rows(parts), self._sql.add)

    def _add(self, rows: _Rows, sql: Callable[[Kind], str]) -> None:
        for kind, of_kind in rows.items():
            self._session.run(sql(kind), self._sql.arrange(kind, of_kind))

    def take_back(self, key: str, kind: Kind, parts: Iterable[CellPart]) -> None:
        """Take numbers from the rows that have them, and delete the rows that come to nothing.

        Rows are changed in the order of all writers. What others have added since stays.
        """
        shown = self.shown()
        rows = sorted(
            kind.pick((*map(shown, cell.values), key, shard, -by)) for cell, shard, by in parts
        )
        if rows:
            self._add({kind: rows}, self._sql.add)
            before = kind.columns.index(KEY) + 1
            for first in sorted({row[:before] for row in rows}):
                self._session.run(self._sql.prune(kind), first)

    def _rows(self, parts: Iterable[tuple[str, Cell, int]]) -> _Rows:
        """The rows of each kind that there are, in the order in which they are written."""
        shown = self.shown()
        rows: dict[Kind, list[tuple[Any, ...]]] = {}
        for key, (kind, values), by in parts:
            row = kind.pick((*map(shown, values), key, 0, by))
            rows.setdefault(kind, []).append(row)
        return {kind: sorted(rows[kind]) for kind in kinds() if kind in rows}

    def shown(self) -> Callable[[Any], Any]:
        """Makes a moment what the database takes, and leaves other values; many are the same."""
        adapt = connections[self._session.using].ops.adapt_datetimefield_value
        return cache(lambda v: adapt(clock.shown(v)) if isinstance(v, datetime) else v)


def _parts(deltas: Iterable[Delta]) -> Iterable[tuple[str, Cell, int]]:
    return ((str(delta.key), cell, by) for delta in deltas for cell, by in delta.effects)
