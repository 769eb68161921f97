"""The public API: counters by key, in shards, and of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections, models

from django_counters.kinds import number
from django_counters.kinds import record as slotted
from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.types import Reading, check_delta


class CounterRows(models.QuerySet[Counter]):
    """Rows of named counters."""

    def increment(self, by: int = 1) -> int:
        """Add ``by`` to every counter of the queryset, all or none, and return how many there were.

        The rows are locked in the order of their keys, then changed by one statement. Bounds of
        the namespaces hold. Counters that come into the queryset meanwhile are left alone.

        Raises:
            InsufficientCount, CeilingExceeded: a bound would be crossed; the error lists each key.
            CounterOverflow: a sum does not fit.
        """
        delta = check_delta(by)
        # Locking makes the router name the database for writing.
        rows = self.select_for_update().order_by("key").values_list("key", flat=True)
        with number.all_or_nothing(rows.db):
            if not connections[rows.db].features.has_select_for_update:
                # SQLite gives up at once where a reader becomes a writer: be one from the start.
                self.model._base_manager.using(rows.db).filter(key="").update(value=0)
            keys = list(rows)
            number.change_many(dict.fromkeys(keys, delta), 1, rows.db)
        return len(keys)

    def decrement(self, by: int = 1) -> int:
        """Subtract ``by`` from every counter of the queryset; see `increment`."""
        return self.increment(check_delta(-check_delta(by)))

    async def aincrement(self, by: int = 1) -> int:
        """`increment` for async code."""
        return await sync_to_async(self.increment)(by)

    async def adecrement(self, by: int = 1) -> int:
        """`decrement` for async code."""
        return await sync_to_async(self.decrement)(by)

    # Templates do not call what changes data.
    increment.alters_data = True  # type: ignore[attr-defined]
    decrement.alters_data = True  # type: ignore[attr-defined]
    aincrement.alters_data = True  # type: ignore[attr-defined]
    adecrement.alters_data = True  # type: ignore[attr-defined]


_RowsManager = models.Manager.from_queryset(CounterRows)


class CounterManager(_RowsManager[Counter]):
    """Counts by key. Every method joins the caller's transaction and rolls back with it.

    ``using`` names a database; without it the manager's own (``db_manager``) is used, else the
    router decides. Errors other than `OutcomeUnknown` mean that nothing was counted.
    """

    def increment(
        self,
        key: str,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        shard_key: object = None,
        using: str | None = None,
    ) -> int:
        """Add ``by`` to a counter and return its new value, in one statement.

        A counter that was never counted starts at zero. ``floor`` and ``ceiling`` narrow what the
        namespace declares; only the bound that the value moves towards is asked. Linearizable
        where the namespace is exact: a concurrent change waits for this transaction and then
        starts from its result. Where it is sharded nobody waits, the value is that of this
        statement's snapshot and ``by``, and ``shard_key`` (a user, a request) always leads to the
        same shard.

        Raises:
            InvalidKey, InvalidDelta: the arguments are not a key and a non-zero integer.
            InsufficientCount: the value would fall below its floor.
            UnsupportedBounds: the namespace is sharded, which cannot hold a floor or ceiling.
            CeilingExceeded: the value would rise above its ceiling.
            CounterOverflow: the value would leave the range of 64 bits.
            CounterUnavailable, ReadOnlyDatabase: the database cannot be reached or written.
            OutcomeUnknown: the connection was lost, outside a transaction, before the answer.
        """
        return number.change(key, check_delta(by), floor, ceiling, using or self._db, shard_key)

    def decrement(
        self,
        key: str,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        shard_key: object = None,
        using: str | None = None,
    ) -> int:
        """Subtract ``by`` from a counter and return its new value; see `increment`.

        With a floor this is one conditional UPDATE: two buyers of the last unit cannot both get it.
        """
        delta = check_delta(-check_delta(by))
        return number.change(key, delta, floor, ceiling, using or self._db, shard_key)

    def increment_many(
        self, deltas: Mapping[str, int], *, using: str | None = None
    ) -> dict[str, int]:
        """Add to many counters, all or none, and return their new values, in one statement.

        Rows are locked in the order of their keys, so two such calls cannot deadlock. Where a
        bound has to hold, a savepoint surrounds the statement.

        Raises:
            InsufficientCount, CeilingExceeded: ``shortfalls`` lists every key that was refused.
            CounterOverflow: a sum does not fit. On PostgreSQL a surrounding transaction is then
                broken, as after any database error: put the call into ``atomic()`` to go on.
        """
        return number.change_many(deltas, 1, using or self._db)

    def decrement_many(
        self, deltas: Mapping[str, int], *, using: str | None = None
    ) -> dict[str, int]:
        """Subtract from many counters, all or none (a cart); see `increment_many`."""
        return number.change_many(deltas, -1, using or self._db)

    def value(self, key: str, *, using: str | None = None) -> int:
        """The exact value of a counter; zero if it was never counted."""
        return number.value_of(key, using or self._db)

    def values_of(self, keys: Iterable[str], *, using: str | None = None) -> dict[str, int]:
        """The exact values of many counters, all of one moment, in one query."""
        return number.values_of(keys, using or self._db)

    def collect(self, *, using: str | None = None) -> AbstractContextManager[None]:
        """A block whose increments are merged by key and applied in one statement at its end.

        The block is a transaction, or a savepoint in the caller's; what it counts is applied as the
        last thing of it, in the order of the keys, so that rows are held for as short as can be and
        two such blocks cannot deadlock. Changes that a floor or ceiling concerns are made at once.
        An increment that is collected returns a value that is not known: to use it raises
        `ValueNotKnown`. Reads within the block see what it has collected. A savepoint that is
        rolled back takes its increments with it, and so does a block that ends with an error.
        What a block within collects is applied with the outer one. Counter fields are not
        collected.

        Raises:
            CounterOverflow: a sum does not fit, at the end of the block.
        """
        return number.collect(using or self._db)

    def acollect(self, *, using: str | None = None) -> AbstractAsyncContextManager[None]:
        """`collect` for async code, where no transaction is open: applied after the block.

        Changes that a floor or ceiling concerns are committed at once, whatever becomes of the
        block. A transaction of synchronous code within counts by itself.
        """
        return number.acollect(using or self._db)

    def read(self, key: str, *, consistency: str = "exact", using: str | None = None) -> Reading:
        """The value of a counter, and what is known of it.

        Raises:
            UnsupportedConsistency: the counter's strategy does not offer ``consistency``.
        """
        return number.read(key, consistency, using or self._db)

    async def aincrement(
        self,
        key: str,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        shard_key: object = None,
        using: str | None = None,
    ) -> int:
        """`increment` for async code; as atomic as its twin."""
        return await sync_to_async(self.increment)(
            key, by, floor=floor, ceiling=ceiling, shard_key=shard_key, using=using
        )

    async def adecrement(
        self,
        key: str,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        shard_key: object = None,
        using: str | None = None,
    ) -> int:
        """`decrement` for async code; as atomic as its twin."""
        return await sync_to_async(self.decrement)(
            key, by, floor=floor, ceiling=ceiling, shard_key=shard_key, using=using
        )

    async def aincrement_many(
        self, deltas: Mapping[str, int], *, using: str | None = None
    ) -> dict[str, int]:
        """`increment_many` for async code."""
        return await sync_to_async(self.increment_many)(deltas, using=using)

    async def adecrement_many(
        self, deltas: Mapping[str, int], *, using: str | None = None
    ) -> dict[str, int]:
        """`decrement_many` for async code."""
        return await sync_to_async(self.decrement_many)(deltas, using=using)

    async def avalue(self, key: str, *, using: str | None = None) -> int:
        """`value` for async code."""
        return await sync_to_async(self.value)(key, using=using)

    async def avalues_of(self, keys: Iterable[str], *, using: str | None = None) -> dict[str, int]:
        """`values_of` for async code."""
        return await sync_to_async(self.values_of)(keys, using=using)

    async def aread(
        self, key: str, *, consistency: str = "exact", using: str | None = None
    ) -> Reading:
        """`read` for async code."""
        return await sync_to_async(self.read)(key, consistency=consistency, using=using)


class ShardManager(models.Manager[CounterShard]):
    """Counts in shards, whatever the namespace declares; `Counter.objects` reads the same values.

    A writer takes a shard that nobody holds, so that no transaction waits for another one.
    """

    def increment(
        self, key: str, by: int = 1, *, shard_key: object = None, using: str | None = None
    ) -> int:
        """Add ``by`` to a counter and return its value: this statement's snapshot and ``by``.

        ``shard_key`` (a user, a request) always leads to the same shard, and waits for it; without
        it a shard is taken that nobody holds.

        Raises:
            InvalidKey, InvalidDelta, CounterOverflow, CounterUnavailable, ReadOnlyDatabase,
            OutcomeUnknown: as `CounterManager.increment`.
        """
        return number.change_shard(key, check_delta(by), shard_key, using or self._db)

    def decrement(
        self, key: str, by: int = 1, *, shard_key: object = None, using: str | None = None
    ) -> int:
        """Subtract ``by`` from a counter; see `increment`."""
        delta = check_delta(-check_delta(by))
        return number.change_shard(key, delta, shard_key, using or self._db)

    def value(self, key: str, *, using: str | None = None) -> int:
        """The exact value of a counter: its total and its shards, in one statement."""
        return number.value_of(key, using or self._db)

    async def aincrement(
        self, key: str, by: int = 1, *, shard_key: object = None, using: str | None = None
    ) -> int:
        """`increment` for async code."""
        return await sync_to_async(self.increment)(key, by, shard_key=shard_key, using=using)

    async def adecrement(
        self, key: str, by: int = 1, *, shard_key: object = None, using: str | None = None
    ) -> int:
        """`decrement` for async code."""
        return await sync_to_async(self.decrement)(key, by, shard_key=shard_key, using=using)

    async def avalue(self, key: str, *, using: str | None = None) -> int:
        """`value` for async code."""
        return await sync_to_async(self.value)(key, using=using)


class SlotManager(models.Manager[SlottedCounter]):
    """Counts for records, in slots: any record of any model, under any name, without a column.

    A name that is a `CounterField` of the model means that field: both count the same.
    """

    def increment(
        self, record: models.Model, name: str, by: int = 1, *, using: str | None = None
    ) -> int:
        """Add ``by`` to a counter of a record and return its value: this statement's and ``by``.

        Raises:
            UnsavedInstance: the record has no row yet.
            RecordMissing: the name is a field, and the row of the record is gone.
            InvalidKey: the record is none, or the name cannot be one.
            InvalidDelta, CounterOverflow, CounterUnavailable, ReadOnlyDatabase, OutcomeUnknown: as
            `CounterManager.increment`.
        """
        return slotted.change(record, name, check_delta(by), using or self._db)

    def decrement(
        self, record: models.Model, name: str, by: int = 1, *, using: str | None = None
    ) -> int:
        """Subtract ``by`` from a counter of a record; see `increment`."""
        return slotted.change(record, name, check_delta(-check_delta(by)), using or self._db)

    def value(self, record: models.Model, name: str, *, using: str | None = None) -> int:
        """The exact value of a counter of a record; zero if it was never counted."""
        return self.read(record, name, using=using).value

    def values_of(
        self, records: Iterable[models.Model], name: str, *, using: str | None = None
    ) -> dict[Any, int]:
        """The exact values of one counter of many records by primary key, in one query a model."""
        return slotted.values_of(records, name, using or self._db)

    def read(
        self,
        record: models.Model,
        name: str,
        *,
        consistency: str = "exact",
        using: str | None = None,
    ) -> Reading:
        """The value of a counter of a record, and what is known of it."""
        return slotted.read(record, name, consistency, using or self._db)

    async def aincrement(
        self, record: models.Model, name: str, by: int = 1, *, using: str | None = None
    ) -> int:
        """`increment` for async code."""
        return await sync_to_async(self.increment)(record, name, by, using=using)

    async def adecrement(
        self, record: models.Model, name: str, by: int = 1, *, using: str | None = None
    ) -> int:
        """`decrement` for async code."""
        return await sync_to_async(self.decrement)(record, name, by, using=using)

    async def avalue(self, record: models.Model, name: str, *, using: str | None = None) -> int:
        """`value` for async code."""
        return await sync_to_async(self.value)(record, name, using=using)

    async def avalues_of(
        self, records: Iterable[models.Model], name: str, *, using: str | None = None
    ) -> dict[Any, int]:
        """`values_of` for async code."""
        return await sync_to_async(self.values_of)(records, name, using=using)

    async def aread(
        self,
        record: models.Model,
        name: str,
        *,
        consistency: str = "exact",
        using: str | None = None,
    ) -> Reading:
        """`read` for async code."""
        return await sync_to_async(self.read)(record, name, consistency=consistency, using=using)


def bind() -> None:
    """Give the models their managers, which stand above them: the app does it when ready."""
    managers: dict[type[models.Model], models.Manager[Any]] = {
        Counter: CounterManager(),
        CounterShard: ShardManager(),
        SlottedCounter: SlotManager(),
    }
    for model, manager in managers.items():
        options: Any = model._meta
        options.local_managers.clear()
        model.add_to_class("objects", manager)
