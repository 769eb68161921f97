"""The public API: counters of records, in slots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import models

from django_counters.kinds import record as slotted
from django_counters.models import SlottedCounter
from django_counters.tokens import Token
from django_counters.types import Reading, check_delta


class SlotManager(models.Manager[SlottedCounter]):
    """Counts for records, in slots: any record of any model, under any name, without a column.

    A name that is a `CounterField` of the model means that field: both count the same.
    """

    def increment(
        self,
        record: models.Model,
        name: str,
        by: int = 1,
        *,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> int:
        """Add ``by`` to a counter of a record and return its value: this statement's and ``by``.

        Raises:
            UnsavedInstance: the record has no row yet.
            RecordMissing: the name is a field, and the row of the record is gone.
            InvalidKey: the record is none, or the name cannot be one.
            InvalidDelta, CounterOverflow, CounterUnavailable, ReadOnlyDatabase, OutcomeUnknown: as
            `CounterManager.increment`.
        """
        return slotted.change(record, name, check_delta(by), using or self._db, token)

    def decrement(
        self,
        record: models.Model,
        name: str,
        by: int = 1,
        *,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> int:
        """Subtract ``by`` from a counter of a record; see `increment`."""
        return slotted.change(record, name, check_delta(-check_delta(by)), using or self._db, token)

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
        self,
        record: models.Model,
        name: str,
        by: int = 1,
        *,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> int:
        """`increment` for async code."""
        return await sync_to_async(self.increment)(record, name, by, token=token, using=using)

    async def adecrement(
        self,
        record: models.Model,
        name: str,
        by: int = 1,
        *,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> int:
        """`decrement` for async code."""
        return await sync_to_async(self.decrement)(record, name, by, token=token, using=using)

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
