"""Cells in one database: added together with the change that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from django.db import connections

from django_counters import clock
from django_counters.stores.sql.session import Session
from django_counters.types import Delta, Sums

# Names of the columns of a change: see `Cells.beside`.
ONE, NUMBERED = ("v",), ("v", "n")
MANY, MANY_NUMBERED = ("k", "v"), ("k", "v", "n")
_PAGE = 1000


class SqlCells:
    """Adds to cells. Holds no connection and no number."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.dialect.cells
        # One for each statement that changes counters of a table, and whether cells are alike.
        self._texts: dict[tuple[str, bool], str] = {}

    def run(
        self, sql: str, params: Sequence[Any], columns: Sequence[str], deltas: Sequence[Delta]
    ) -> Sequence[tuple[Any, ...]]:
        """Execute the statement of a change, and add to the cells of what it has counted.

        All of it is one step. On PostgreSQL it is one statement: the change first, so that whoever
        adds to the cells of a counter without shards holds its total.
        """
        if not any(delta.effects for delta in deltas):
            return self._session.run(sql, params)
        if self._sql.join:
            text, cells = self._joined(sql, columns, list(self._rows(deltas)))
            return self._session.run(text, (*params, *cells))
        with self._session.all_or_nothing():
            rows = self._session.run(sql, params)
            # A change of one counter that is refused has no row, or none with a value.
            if rows and None not in rows[0]:
                self.add(deltas)
        return rows

    def _joined(
        self, sql: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
    ) -> tuple[str, Sequence[Any]]:
        """One statement of a change and its cells, and the parameters of these."""
        alike = self._sql.alike(rows) if columns[0] == "v" else None
        text = self._texts.get((sql, alike is None))
        if text is None:
            joins = self._sql.beside if alike is None else self._sql.after
            text = self._texts[sql, alike is None] = joins(sql, columns)
        return text, self._sql.arrange(rows) if alike is None else alike

    def add(self, deltas: Sequence[Delta], *, apart: bool = False) -> None:
        """Add to the cells of deltas whose totals are changed by another statement.

        All writers add in one order, so that no two of them wait for each other. ``apart``: to a
        shard that no other transaction uses just now.
        """
        self._add(self._rows(deltas), self._sql.apart if apart else self._sql.add)

    def add_sums(self, sums: Sums[str]) -> None:
        """Do the same for what is summed by key and cell."""
        shown = self._shown()
        rows = (
            (cell.measure, key, cell.period, shown(cell.start), cell.tags, 0, by)
            for (key, cell), by in sums.items()
            if cell is not None
        )
        self._add(rows, self._sql.add)

    def _add(self, rows: Iterator[tuple[Any, ...]], sql: str) -> None:
        ordered = sorted(rows)
        if ordered:
            self._session.run(sql, self._sql.arrange(ordered))

    def forget(self, measure: int, period: int, before: datetime) -> int:
        """Delete cells of a period that begin before a moment, in small batches; how many."""
        gone = 0
        params = (measure, period, self._shown()(before), _PAGE)
        while rows := len(self._session.run(self._sql.forget, params)):
            gone += rows
        return gone

    def _rows(self, deltas: Sequence[Delta]) -> Iterator[tuple[Any, ...]]:
        shown = self._shown()
        for delta in deltas:
            key = str(delta.key)
            for (measure, period, start, tags), by in delta.effects:
                yield measure, key, period, shown(start), tags, 0, by

    def _shown(self) -> Callable[[datetime], Any]:
        """Makes a moment what the database takes; many cells have the same."""
        adapt = connections[self._session.using].ops.adapt_datetimefield_value
        return cache(lambda start: adapt(clock.shown(start)))
