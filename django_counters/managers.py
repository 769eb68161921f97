"""The public API of named counters, and the queryset for models with counter fields."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self, TypeVar

from asgiref.sync import sync_to_async
from django.core.exceptions import FieldError
from django.db import connections, models

from django_counters.fields import CounterField, counter_fields
from django_counters.kinds import number
from django_counters.models import Counter
from django_counters.types import Reading, check_delta

_Model = TypeVar("_Model", bound=models.Model)


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
        using: str | None = None,
    ) -> int:
        """Add ``by`` to a counter and return its new value, in one statement.

        A counter that was never counted starts at zero. ``floor`` and ``ceiling`` narrow what the
        namespace declares; only the bound that the value moves towards is asked. Linearizable:
        a concurrent change waits for this transaction and then starts from its result.

        Raises:
            InvalidKey, InvalidDelta: the arguments are not a key and a non-zero integer.
            InsufficientCount: the value would fall below its floor.
            CeilingExceeded: the value would rise above its ceiling.
            CounterOverflow: the value would leave the range of 64 bits.
            CounterUnavailable, ReadOnlyDatabase: the database cannot be reached or written.
            OutcomeUnknown: the connection was lost, outside a transaction, before the answer.
        """
        return number.change(key, check_delta(by), floor, ceiling, using or self._db)

    def decrement(
        self,
        key: str,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        using: str | None = None,
    ) -> int:
        """Subtract ``by`` from a counter and return its new value; see `increment`.

        With a floor this is one conditional UPDATE: two buyers of the last unit cannot both get it.
        """
        delta = check_delta(-check_delta(by))
        return number.change(key, delta, floor, ceiling, using or self._db)

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
        (value,) = number.values_of((key,), using or self._db).values()
        return value

    def values_of(self, keys: Iterable[str], *, using: str | None = None) -> dict[str, int]:
        """The exact values of many counters, all of one moment, in one query."""
        return number.values_of(keys, using or self._db)

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
        using: str | None = None,
    ) -> int:
        """`increment` for async code; as atomic as its twin."""
        return await sync_to_async(self.increment)(
            key, by, floor=floor, ceiling=ceiling, using=using
        )

    async def adecrement(
        self,
        key: str,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        using: str | None = None,
    ) -> int:
        """`decrement` for async code; as atomic as its twin."""
        return await sync_to_async(self.decrement)(
            key, by, floor=floor, ceiling=ceiling, using=using
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


class CounterQuerySet(models.QuerySet[_Model]):
    """For models with counter fields: ``objects = CounterQuerySet.as_manager()``."""

    def with_counts(self, *names: str) -> Self:
        """Rows that carry the exact values of the named counter fields (of all, without names).

        The values come with the rows, in the same query, and can be filtered and ordered by.

        Raises:
            FieldError: a name is not a counter field of the model.
        """
        fields = {field.name for field in counter_fields(self.model)}
        for name in names:
            if name not in fields:
                known = ", ".join(sorted(fields)) or "none"
                raise FieldError(
                    f"{name!r} is not a counter field of {self.model._meta.label}; known: {known}."
                )
        return self._loading(names or tuple(fields))

    def _loading(self, names: Iterable[str]) -> Self:
        """The same rows with these columns loaded, even where ``only()`` left them out."""
        clone = self.all()
        deferred, is_defer = clone.query.deferred_loading
        wanted = set(deferred) - set(names) if is_defer else set(deferred) | set(names)
        clone.query.deferred_loading = (frozenset(wanted), is_defer)
        return clone

    def bulk_create(
        self,
        objs: Iterable[_Model],
        batch_size: int | None = None,
        ignore_conflicts: bool = False,
        update_conflicts: bool = False,
        update_fields: Collection[str] | None = None,
        unique_fields: Collection[str] | None = None,
    ) -> list[_Model]:
        """Django's, but it refuses to overwrite a counter of a row that exists already."""
        update_fields = None if update_fields is None else list(update_fields)
        names = {field.name for field in counter_fields(self.model)} & set(update_fields or ())
        if update_conflicts and names:
            raise FieldError(
                f"bulk_create() would overwrite {', '.join(sorted(names))} with a stale number; "
                "leave it out of update_fields."
            )
        return super().bulk_create(
            objs, batch_size, ignore_conflicts, update_conflicts, update_fields, unique_fields
        )


def bind() -> None:
    """Give `Counter` its manager. Models stand below managers, so the app does it when ready."""
    options: Any = Counter._meta
    options.local_managers.clear()
    Counter.add_to_class("objects", CounterManager())


__all__ = ["CounterField", "CounterManager", "CounterQuerySet", "CounterRows", "bind"]
