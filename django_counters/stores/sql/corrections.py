"""Totals under correction: held, read, and changed, with amounts pending elsewhere."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from django_counters.exceptions import CounterOverflow
from django_counters.measure import Kind
from django_counters.stores.sql.cells import Part
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.records import RecordKeys
from django_counters.stores.sql.totals import SqlReads, under
from django_counters.types import Amounts


class Held(NamedTuple):
    """What there is of totals that are held, and which of them were made for that."""

    found: Mapping[Hashable, Amounts]
    made: frozenset[Hashable]


class SqlCorrections(SqlReads):
    """Changes totals for a caller who has looked at the value first, in one transaction."""

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
        with self._session.serializable(what), self._session.read_committed():
            yield

    def hold(self, keys: Sequence[Any], whole: Sequence[Any] = ()) -> Held:
        """Let no other transaction change totals until the transaction ends, and say what there is
        now.

        Totals that are missing are made, unless they stand in rows of records. All are held in the
        order of their keys, so that no two transactions wait for each other. ``whole``: those with
        a floor. The amount that waits for them becomes part of their totals, as others take from
        their rows without a look at the total.
        """
        params = (*self._bare(), self._session.dialect.keys(keys))
        told = {key for key, *_ in under(keys, self._session.run(self._sql.hold, params))}
        # The amount that waits for a record that is gone has no total to be part of.
        self._gather([key for key in whole if self.inserts or key in told])
        # A statement of its own: it sees what those have committed whom the first one waited for.
        found = self.read(keys)
        if self.inserts:
            return Held(found, frozenset(told))
        # A record that has just come is not held.
        return Held({key: found[key] for key in told if key in found}, frozenset())

    def _gather(self, keys: Sequence[Any]) -> None:
        """Let the rows of totals that are held be part of them, waiting for those who hold some."""
        if not keys:
            return
        native = {str(key): key for key in keys}
        params = (*self._owner.scope(), self._session.dialect.keys(list(native)))
        sums: dict[Any, int] = {}
        for key, value in self._session.run(self._sql.gather, params):
            sums[native[str(key)]] = sums.get(native[str(key)], 0) + int(value)
        if sums:
            self.correct(sums)

    def counted(self, key: Hashable, measure: int) -> tuple[Amounts, list[Part]]:
        """The value of a named counter, and what its periods have, of one moment.

        ``measure``: the number of its measure.
        """
        return self._cells.counted(self._reads.one, self._reading(key), measure, str(key))

    def take_back(self, key: Hashable, parts: Iterable[Part], kind: Kind) -> None:
        """Take the numbers of a kind away, and delete the rows that come to nothing."""
        self._cells.take_back(str(key), kind, parts)

    def make(self, keys: Sequence[Any]) -> int:
        """Make totals that are missing; how many of them were."""
        params = (*self._bare(), self._session.dialect.keys(keys))
        return len(self._session.run(self._sql.ensure, params))

    def check(self, key: Any, by: int, total: int) -> None:
        """Refuse a change of a total that would not fit into its column.

        Raises:
            CounterOverflow: it would not.
        """
        low, high = self.capacity
        if not low <= total + by <= high:
            raise CounterOverflow(key=self.label(key), low=low, high=high)

    def correct(self, changes: Mapping[Any, int]) -> None:
        """Add to totals that are held, in one statement, while amounts may be pending elsewhere."""
        params = self._session.dialect.sums(changes)
        credited = self._session.run(self._sql.credit, (*self._bare(), *params))
        if len(credited) != len(changes):
            raise RuntimeError(f"{len(changes)} totals are held, {len(credited)} were changed")

    def _bare(self) -> tuple[Any, ...]:
        """The scope, for statements on totals that stand among the slots."""
        return () if self._inside else self._owner.scope()
