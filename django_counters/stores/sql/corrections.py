"""Totals that somebody corrects: held, read, and changed, whatever waits elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import Error

from django_counters.exceptions import CounterOverflow, RecordMissing, RetryTransaction
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.records import RecordKeys
from django_counters.stores.sql.totals import SqlReads
from django_counters.types import Amounts

# One that was there when it was to be made may be forgotten before it is held.
_ATTEMPTS = 20


class SqlCorrections(SqlReads):
    """Changes totals for whoever has looked at the value first, in one transaction."""

    def __init__(self, table: Table, using: str, key_field: Any) -> None:
        super().__init__(table, using)
        self._inside = bool(table.value)
        kind = RecordKeys(key_field, using).type if key_field and table.value else "text"
        self._sql = self._session.dialect.fold(self._quoted, kind)

    @contextmanager
    def correcting(self, what: str = "the adjustment") -> Iterator[None]:
        """A transaction that reads what is committed by then, or a savepoint in the caller's.

        Raises:
            RetryTransaction: the caller's does not see what others have changed.
        """
        begins = self._session.commits_at_once()
        try:
            with self.all_or_nothing():
                if begins and self._sql.begin:
                    self._session.execute(self._sql.begin)
                yield
        except Error as error:
            if self._session.dialect.unserializable(error):
                raise RetryTransaction(what=what) from error
            raise

    def hold(self, key: Any) -> Amounts:
        """Let nobody else change the total until the transaction ends; what there is now.

        A total that is missing is made, unless it stands in the row of a record.

        Raises:
            RecordMissing: that row is not there.
        """
        for _ in range(_ATTEMPTS):
            if self._credit(key, 0):
                return self.read_one(key) or Amounts(0, 0)
            if self._sql.ensure:
                self.make([key])
        raise RecordMissing(key=self.label(key))

    def make(self, keys: Sequence[Any]) -> int:
        """Make totals that are missing; how many of them were."""
        params = (*self._bare(), self._session.dialect.keys(keys))
        return len(self._session.run(self._sql.ensure, params))

    def correct(self, key: Any, by: int, total: int) -> None:
        """Add to a total that is held; it has ``total`` so far.

        Raises:
            CounterOverflow: it would not fit into its column.
        """
        low, high = self.capacity
        if not low <= total + by <= high:
            raise CounterOverflow(key=self.label(key), low=low, high=high)
        self._credit(key, by)

    def _credit(self, key: Any, by: int) -> bool:
        """Add to a total; False where there is none."""
        params = self._session.dialect.sums([key], [by])
        return bool(self._session.run(self._sql.credit, (*self._bare(), *params)))

    def _bare(self) -> tuple[Any, ...]:
        """The scope, for statements on totals that stand among the slots."""
        return () if self._inside else self._owner.scope()
