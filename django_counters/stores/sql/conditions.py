"""The conditions of one database: rows that are made and deleted with the change.

The row comes first, then the total, then its cells: in one order for all writers, so that no two of
them wait for each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.transaction import TransactionManagementError

from django_counters import clock
from django_counters.conditions import Condition
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.session import Session


class SqlConditions:
    """Makes and deletes rows, within the transaction of the change that they belong to."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = self._session.dialect.conditions

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's."""
        return self._session.all_or_nothing()

    def hold(self, table: Table, key: Hashable) -> bool:
        """Keep others from deleting the record of a counter; whether it is there.

        True if no transaction could delete it anyway, or no record is needed.
        """
        sql = self._sql.hold(table.quoted(self._session.quote))
        return not sql or bool(self._session.run(sql, (key,)))

    def met(self, condition: Condition) -> bool:
        """Make or delete the row of a condition; whether the change counts.

        Waits for the transaction that just makes or deletes the same.
        """
        kind, row = condition.kind, self.row(condition)
        if condition.takes_back:
            return bool(self.run(self._sql.release(kind), row[:-1]))
        if condition.older_than is None:
            return bool(self.run(self._sql.claim(kind), row))
        return bool(self.run(self._sql.renew(kind), (*row, self._shown(condition.older_than))))

    def row(self, condition: Condition) -> tuple[Any, ...]:
        """The columns of a row, as parameters."""
        *key, made = condition.row
        return (*key, self._shown(made))

    def _shown(self, moment: datetime) -> str:
        """A moment as the database takes it: as a text, which the driver takes less time for."""
        shown = clock.shown(moment)
        if self._session.dialect.knows_time_zones:
            return str(shown)
        return str(connections[self._session.using].ops.adapt_datetimefield_value(shown))

    def explained(self) -> AbstractContextManager[None]:
        """Say what an error means of a statement that makes or deletes a row."""
        return self._session.serializable("the change")

    def run(self, sql: str, params: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        """Execute a statement that changes rows.

        Raises:
            TransactionManagementError: no transaction is open: it would end at once.
        """
        if self._session.commits_at_once():
            message = "The row of a condition needs the transaction of its change."
            raise TransactionManagementError(message)
        with self.explained():
            return self._session.run(sql, params)
