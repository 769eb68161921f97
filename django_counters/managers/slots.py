"""The public API: counters of records, in slots."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar, Unpack
from uuid import UUID

from django.db import models

from django_counters.adjustments import AdjustOptions, ResetOptions
from django_counters.adjustments.models import CounterAdjustment
from django_counters.projections.event import OnceOptions, Tags, Who, event_of
from django_counters.reading import read_record, record_values_of
from django_counters.tables.core import SlotColumns
from django_counters.tokens import Token, optional_token
from django_counters.twins import twin
from django_counters.types import Reading, check_integer
from django_counters.values import Result
from django_counters.write import records as slotted
from django_counters.write.changes import Change
from django_counters.write.pipeline import change
from django_counters.write.records import of_record

_Row = TypeVar("_Row", bound=SlotColumns)


class SlotManager(models.Manager[_Row]):
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
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> Result:
        """Add ``by`` to a counter of a record; its value is that of this statement and ``by``.

        ``at`` and ``tags`` say what it is counted by, where the name is a field with ``per``.

        Raises:
            UnsavedInstance: the record has no row yet.
            RecordMissing: the name is a field, and the row of the record is gone.
            InvalidKey: the record is none, or the name cannot be one.
            InvalidDelta, InvalidMoment, InvalidTags, UnsupportedSeries, CounterOverflow,
            CounterUnavailable, ReadOnlyDatabase, OutcomeUnknown: as `CounterManager.increment`.
        """
        delta, given = check_integer(by), optional_token(token)
        ref = slotted.in_slots(record, name, using or self._db)
        return change(Change(ref, delta, token=given, event=event_of(at, tags, who)))

    def decrement(
        self, record: models.Model, name: str, by: int = 1, **options: Unpack[OnceOptions]
    ) -> Result:
        """Subtract ``by`` from a counter of a record; see `increment`."""
        return self.increment(record, name, -check_integer(by), **options)

    def value(self, record: models.Model, name: str, *, using: str | None = None) -> int:
        """The exact value of a counter of a record; zero if it was never counted."""
        return self.read(record, name, using=using).value

    def values_of(
        self, records: Iterable[models.Model], name: str, *, using: str | None = None
    ) -> dict[Any, int]:
        """The exact values of one counter of many records by primary key, in one query a model."""
        return record_values_of(records, name, using or self._db)

    def read(
        self,
        record: models.Model,
        name: str,
        *,
        consistency: str = "exact",
        using: str | None = None,
    ) -> Reading:
        """The value of a counter of a record, and its parts."""
        return read_record(record, name, consistency, using or self._db)

    def adjust(
        self, record: models.Model, name: str, **options: Unpack[AdjustOptions]
    ) -> CounterAdjustment:
        """Set a counter of a record right, and keep for ever who did it and why.

        As `CounterManager.adjust`, with its arguments and its errors.

        Raises:
            UnsavedInstance: the record has no row yet.
            RecordMissing: the name is a field, and the row of the record is gone.
        """
        from django_counters.adjustments.adjustment import adjust

        using = options.pop("using", None) or self._db
        return adjust(of_record(record, name, using), **options)

    def reset(
        self, record: models.Model, name: str, **options: Unpack[ResetOptions]
    ) -> CounterAdjustment:
        """Set a counter of a record to zero, and keep for ever who did it and why.

        As `CounterManager.reset`, with its arguments and its errors.

        Raises:
            UnsavedInstance: the record has no row yet.
            RecordMissing: the name is a field, and the row of the record is gone.
        """
        return self.adjust(record, name, to=0, **options)

    aadjust = twin(adjust)
    areset = twin(reset)
    aincrement = twin(increment)
    adecrement = twin(decrement)
    avalue = twin(value)
    avalues_of = twin(values_of)
    aread = twin(read)
