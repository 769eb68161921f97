"""Totals kept in a column: add to them, read them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import Error, connections, transaction

from django_counters.exceptions import (
    CounterError,
    CounterOverflow,
    CounterUnavailable,
    OutcomeUnknown,
    ReadOnlyDatabase,
)
from django_counters.stores.sql.cursors import KeptCursor
from django_counters.stores.sql.dialects import Table, dialect_of
from django_counters.types import UNBOUNDED, Bounds, Delta


class SqlTotals:
    """The totals of one table in one database. Holds no connection and no number."""

    def __init__(self, table: Table, using: str) -> None:
        self.using = using
        self.capacity = table.capacity
        self.inserts = table.inserts
        self._label = table.label
        self._kept = KeptCursor()
        self._dialect = dialect_of(using)
        self._sql = self._dialect.statements(table.quoted(connections[using].ops.quote_name))

    def add(self, delta: Delta) -> int | None:
        """Add to one total in one statement and return it; None if there is no row that admits it.

        The statement waits for other writers of the row, then looks at the value that they left.
        """
        key, by, bounds = delta
        if by == 1 and bounds == UNBOUNDED:
            rows = self._run(self._sql.unit, (key,))
            return rows[0][0] if rows else None
        limit = self._limit(by, bounds)
        if limit is None:
            return None
        # A row is only ever inserted with a value that its bounds admit.
        if self.inserts and bounds.admits(0, by):
            sql = self._sql.rising_upsert if by > 0 else self._sql.falling_upsert
            rows = self._run(sql, (key, by, limit))
        else:
            sql = self._sql.rising_update if by > 0 else self._sql.falling_update
            rows = self._run(sql, (by, key, limit))
        return rows[0][0] if rows else None

    def add_many(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Add to many totals in one statement, in the order of their keys, and return them.

        Raises:
            CounterOverflow: a sum does not fit; the statement changed nothing.
        """
        try:
            return dict(self._run(self._sql.add_many, self._dialect.batch(deltas)))
        except Error as error:
            if not self._dialect.overflowed(error):
                raise
            low, high = self.capacity
            raise CounterOverflow(
                key=f"one of {len(deltas)} counters", low=low, high=high
            ) from error

    def read(self, keys: Iterable[Hashable]) -> Mapping[Hashable, int]:
        """Return the totals that exist among ``keys`` in one statement."""
        rows = self._run(self._sql.read, (self._dialect.keys(list(keys)),), writes=False)
        return dict(rows)

    def read_one(self, key: Hashable) -> int | None:
        """Return one total in one statement; None if there is no row."""
        rows = self._run(self._sql.read_one, (key,), writes=False)
        return rows[0][0] if rows else None

    def label(self, key: Hashable) -> str:
        """The key itself, or the name of a record's column and the key."""
        return f"{self._label}:{key}" if self._label else str(key)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """A transaction, or a savepoint in the caller's."""
        connection = connections[self.using]
        try:
            connection.ensure_connection()
        except Error as error:
            raise self._unreachable(error) from error
        commits = not connection.in_atomic_block and connection.get_autocommit()
        done = False
        try:
            with transaction.atomic(using=self.using):
                yield
                done = True
        except CounterError:
            raise
        except Error as error:
            # Before COMMIT it is known that nothing was counted; in COMMIT it is not.
            self._raise_translated(error, unknown=commits and done)
            raise

    def _limit(self, by: int, bounds: Bounds) -> int | None:
        """The last value that may still change by ``by``; None if there is none in the column."""
        low, high = self.capacity
        if by > 0:
            limit = (high if bounds.ceiling is None else min(high, bounds.ceiling)) - by
        else:
            limit = (low if bounds.floor is None else max(low, bounds.floor)) - by
        return limit if low <= limit <= high else None

    def _run(
        self, sql: str, params: Sequence[Any], *, writes: bool = True
    ) -> Sequence[tuple[Any, ...]]:
        connection = connections[self.using]
        try:
            cursor = self._kept.take(connection)
        except Error as error:
            raise self._unreachable(error) from error
        # A driver that knows already that its connection is lost sends nothing.
        sends = not getattr(connection.connection, "closed", False)
        try:
            cursor.execute(sql, params)
            # The driver's own method: Django's wrapper makes a new function for each fetch.
            with connection.wrap_database_errors:
                rows: list[tuple[Any, ...]] = cursor.cursor.fetchall()
        except Error as error:
            # What was not committed is rolled back by the database: this is known.
            commits = connection.autocommit and not connection.in_atomic_block
            self._raise_translated(error, unknown=writes and sends and commits)
            raise
        if len(rows) < 2:
            # A cursor holds on to its last result: not to that of a batch.
            self._kept.give_back(cursor)
        return rows

    def _raise_translated(self, error: Error, *, unknown: bool) -> None:
        """Raise our own error for one that has a name; ``unknown``: it may have been counted."""
        if self._dialect.read_only(error):
            raise ReadOnlyDatabase(using=self.using) from error
        if self._dialect.lost(error):
            raise (
                OutcomeUnknown(using=self.using) if unknown else self._unreachable(error)
            ) from error

    def _unreachable(self, error: Error) -> CounterUnavailable:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        return CounterUnavailable(using=self.using, reason=reason.rstrip("."))
