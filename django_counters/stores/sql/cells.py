"""Cells in one database: added together with the change that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import Error, connections

from django_counters import clock
from django_counters.effects import kinds, sharded_kinds
from django_counters.measure import Kind
from django_counters.stores.base import NoRoom
from django_counters.stores.sql.dialects.cells import NUMBERED_PERIODS
from django_counters.stores.sql.session import Session, aware
from django_counters.types import Amounts, Cell, Delta, Sums

# Names of the columns of a change: see `Cells.beside`.
ONE, NUMBERED = ("v",), ("v", "n")
CONDITION, NUMBERED_CONDITION = ("v", "p"), ("v", "n", "p")
MANY, MANY_NUMBERED = ("k", "v"), ("k", "v", "n")
_PAGE = 1000
_Rows = Mapping[Kind, list[tuple[Any, ...]]]
_Make = Callable[..., str]


class CellPart(NamedTuple):
    """What one row of a cell has."""

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
        return self._sql.join and bool(effects) and all(one.cell.kind.adds for one in effects)

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
        return text, (*alike, *guard.parameters(str(deltas[0].key), self._shown()))

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

    def used(self, parts: Sequence[tuple[str, Cell]]) -> list[int]:
        """What each period of a counter has counted, over all tags and shards; all of one kind."""
        shown = self._shown()
        rows = [
            (cell.measure, cell.period, shown(cell.start), key, number)
            for number, (key, cell) in enumerate(parts)
        ]
        params = self._sql.arrange(NUMBERED_PERIODS, rows)
        found = self._session.run(self._sql.used(parts[0][1].kind), params, writes=False)
        sums = {number: int(value) for number, value in found}
        return [sums.get(number, 0) for number in range(len(rows))]

    def counted(
        self, value: str, params: Sequence[Any], measure: int, key: str
    ) -> tuple[Amounts, list[CellPart]]:
        """The value of one counter and the numbers of its periods, of one moment.

        ``value`` is the statement that reads its total and what is pending.
        """
        known = sharded_kinds()
        params = (*params, *(measure, key) * len(known))
        amounts, parts = Amounts(None, 0), []
        rows = self._session.run(self._sql.counted(value), params, writes=False)
        for number, period, start, tags, by, last in rows:
            if number < 0:
                amounts = Amounts(None if by is None else int(by), int(last or 0))
            else:
                moment = aware(start, local=True).astimezone(UTC)
                cell = Cell(measure, int(period), moment, str(tags), 0, known[number])
                parts.append(CellPart(cell, int(last), int(by)))
        return amounts, parts

    def take_back(self, key: str, kind: Kind, parts: Iterable[CellPart]) -> None:
        """Take numbers from the rows that have them, and delete the rows that come to nothing.

        Rows are changed in the order of all writers. What others have added since stays.
        """
        shown = self._shown()
        rows = sorted(
            kind.pick((measure, key, period, shown(start), tags, 0, shard, -by))
            for (measure, period, start, tags, _, of_kind), shard, by in parts
            if of_kind is kind
        )
        if rows:
            self._add({kind: rows}, self._sql.add)
            self._session.run(self._sql.prune(kind), (rows[0][0], key))

    def forget(
        self, table: str, columns: Sequence[str], measure: int, period: int, before: datetime
    ) -> int:
        """Delete rows of a period that begin before a moment; how many. In small batches.

        ``columns``: those of the table's primary key.
        """
        sql, gone = self._sql.forget(table, columns), 0
        params = (measure, period, self._shown()(before), _PAGE)
        while rows := len(self._session.run(sql, params)):
            gone += rows
        return gone

    def _rows(self, parts: Iterable[tuple[str, Cell, int]]) -> _Rows:
        """The rows of each kind that there are, in the order in which they are written."""
        shown = self._shown()
        rows: dict[Kind, list[tuple[Any, ...]]] = {}
        for key, (measure, period, start, tags, member, kind), by in parts:
            of = measure, key, period, shown(start), tags, member, 0, by
            rows.setdefault(kind, []).append(kind.pick(of))
        return {kind: sorted(rows[kind]) for kind in kinds() if kind in rows}

    def _shown(self) -> Callable[[datetime], Any]:
        """Makes a moment what the database takes; many cells have the same."""
        adapt = connections[self._session.using].ops.adapt_datetimefield_value
        return cache(lambda start: adapt(clock.shown(start)))


def _parts(deltas: Iterable[Delta]) -> Iterable[tuple[str, Cell, int]]:
    return ((str(delta.key), cell, by) for delta in deltas for cell, by in delta.effects)
