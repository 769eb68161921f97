"""The value of a counter field: an int that can also count."""

from __future__ import annotations

from copy import copy
from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from django.db import models, router
from django.db.models.sql import InsertQuery

from django_counters.adjustments import AdjustOptions, ResetOptions
from django_counters.adjustments.models import CounterAdjustment
from django_counters.event import BoundOptions, Tags, Who, event_of
from django_counters.reading import ReadOptions
from django_counters.tables.total import Loaded
from django_counters.tokens import Token, optional_token
from django_counters.twins import alters_data, twin
from django_counters.types import NoNumber, Reading, Result, bounds_of_call, check_integer
from django_counters.write import pipeline
from django_counters.write.changes import Change, Ref
from django_counters.write.records import of_record


class Counting:
    """The counter of one instance, whether or not its number was loaded."""

    _field: Any  # a CounterField; said so, its descriptor would hide it from type checkers
    _instance: models.Model

    def ref_in(self, using: str | None, *, reads: bool = False) -> Ref:
        """Return the counter, for `write.records.ref_to`."""
        alias = using or router.db_for_read(type(self._instance)) if reads else using
        ref: Ref = self._field.ref(self._instance, alias)
        return ref

    def show(self, value: int) -> None:
        """Set the value of the instance, which the next access returns. Writes no row."""
        self._instance.__dict__[self._field.attname] = value

    @alters_data
    def increment(
        self,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        token: str | UUID | Token | None = None,
        immediately: bool = False,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> Result:
        """Add ``by`` to the row, in one statement; the new value is set on the instance.

        Exact under concurrency, also with a stale instance. ``floor`` and ``ceiling`` narrow what
        the field declares; only the bound that the value moves towards is asked. With a token the
        change counts once: a repeated call returns what the first one returned, and says so in
        ``replayed``. Where the field is cached the change is made in Redis, and within a
        transaction when that commits, unless ``immediately``; it takes no token. ``at`` and
        ``tags`` say what it is counted by, where the field names periods (``per``). Adding zero
        changes nothing; see `CounterManager.increment`.

        Returns:
            The new value, `Counted`, which is an int. Or `Unknown`: of a cached field in a
            transaction, or without its Redis. The instance then holds what it held.

        Raises:
            UnsavedInstance: the instance has no row yet.
            RecordMissing: its row is gone.
            InvalidToken, TokenConflict, TokenExpired, RetryTransaction, InvalidTags, InvalidMoment,
            UnsupportedSeries: as for named counters.
            InvalidDelta, InsufficientCount, CeilingExceeded, CounterOverflow, CounterUnavailable,
            ReadOnlyDatabase, OutcomeUnknown: as for named counters.
        """
        bounds, event = bounds_of_call(floor, ceiling), event_of(at, tags, who)
        delta, ref = check_integer(by), self._field.ref(self._instance, using)
        given = optional_token(token)
        result = pipeline.change(Change(ref, delta, bounds, None, given, immediately, event=event))
        # If no number is known, the instance keeps its value.
        if result.value is not None and not result.replayed:
            self.show(result.value)
        return result

    @alters_data
    def decrement(self, by: int = 1, **options: Unpack[BoundOptions]) -> Result:
        """Subtract ``by`` from the row; see `increment`."""
        return self.increment(-check_integer(by), **options)

    @alters_data
    def maximum(self, number: int, *, using: str | None = None) -> Result:
        """Set the row to ``number`` if its value is smaller; see `CounterManager.maximum`.

        The value afterwards is set on the instance, where it is known.

        Raises:
            UnsavedInstance, RecordMissing: there is no row.
            UnsupportedMaximum: the field is slotted, is counted by period, or counts once for each
                actor.
            CeilingExceeded, CounterOverflow, InvalidDelta, Contention: as there.
        """
        result = pipeline.maximum(self._field.ref(self._instance, using), number)
        if result.value is not None:
            self.show(result.value)
        return result

    amaximum = twin(maximum)

    def read(
        self, *, consistency: str = "exact", max_age: float | None = None, using: str | None = None
    ) -> Reading:
        """The present value and its parts: total, pending, as of when.

        A cached field offers ``consistency="cached"``: from Redis alone, where the total there is
        not older than ``max_age`` seconds (5).

        Raises:
            UnsavedInstance, RecordMissing: there is no row.
            UnsupportedConsistency: the field's strategy does not offer ``consistency``.
        """
        reading: Reading = self._field.read(self._instance, consistency, using, max_age)
        return reading

    def value(self, **options: Unpack[ReadOptions]) -> int:
        """The present value, not that of the instance; of a cached field as fresh as asked for.

        As `CounterManager.value`: with ``consistency="cached"`` other fields are read exactly.

        Raises:
            UnsavedInstance, RecordMissing: there is no row.
            CounterUnavailable: the exact value cannot be told.
        """
        if options.get("consistency") == "cached" and not self._field.recipe.can.cached:
            options["consistency"] = "exact"
        return self.read(**options).value

    @alters_data
    def adjust(self, **options: Unpack[AdjustOptions]) -> CounterAdjustment:
        """Set the row right, and keep for ever what it was, who did it and why.

        As `CounterManager.adjust`, with its arguments and its errors; the value that it leaves is
        on the instance.

        Raises:
            UnsavedInstance, RecordMissing: there is no row.
        """
        from django_counters.adjustments.adjustment import adjust

        using = options.pop("using", None)
        row = adjust(of_record(self._instance, self._field.name, using), **options)
        if not row.replayed:
            self.show(row.after)
        return row

    @alters_data
    def reset(self, **options: Unpack[ResetOptions]) -> CounterAdjustment:
        """Set the row to zero, and keep for ever what it was, who did it and why.

        As `CounterManager.reset`, with its arguments and its errors; zero is then on the
        instance.

        Raises:
            UnsavedInstance, RecordMissing: there is no row.
        """
        return self.adjust(to=0, **options)

    aadjust = twin(adjust)
    areset = twin(reset)
    aread = twin(read)
    avalue = twin(value)
    aincrement = twin(increment)
    adecrement = twin(decrement)


class SavedRaw:
    """A number that a raw save inserts with a new row, and never writes to an existing one.

    A raw save (``loaddata``, a version that is restored) asks no field for the value to write: it
    takes the attribute. So the attribute is an expression for as long as the raw save runs.
    """

    _field: Any
    _instance: models.Model

    @property
    def resolve_expression(self) -> Any:
        """Django looks for it in each value of a query."""
        if not vars(self._instance._state).get("counters_raw"):
            raise AttributeError("resolve_expression")
        return self._in_raw_save

    def _in_raw_save(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(query, InsertQuery):
            # A copy is a plain number.
            return models.Value(copy(self), self._field)
        return models.F(self._field.attname).resolve_expression(query, *args, **kwargs)


def note_raw(instance: models.Model, signal: object, *, raw: bool = False, **_: Any) -> None:
    """Receives ``pre_save`` and ``post_save``: whether a raw save of the instance runs."""
    if raw:
        vars(instance._state)["counters_raw"] = signal is models.signals.pre_save


class CounterValue(SavedRaw, Counting, Loaded):
    """What ``post.views`` is: the int that was loaded, which can also count.

    Comparing, formatting and calculating work as with any int. Counting changes the row in the
    database, joins the caller's transaction, and leaves the new value on the instance.
    """

    def __new__(cls, value: int, field: Any, instance: models.Model) -> CounterValue:
        number = super().__new__(cls, value)
        number._field = field
        number._instance = instance
        return number


class NotLoaded(Counting, NoNumber):
    """What ``post.views`` is in async code where it was deferred: it counts, but is no number."""

    def __init__(self, field: Any, instance: models.Model) -> None:
        super().__init__(f"{field.model._meta.label}.{field.name}:{instance.pk}")
        self._field = field
        self._instance = instance

    @property
    def reason(self) -> str:  # type: ignore[override]
        """Why the value is not known."""
        return f"it was not loaded; await arefresh_from_db(fields=[{self._field.name!r}]) first"


class CounterOf(NotLoaded):
    """The counter of the record with a primary key, which is not loaded: it counts and reads.

    It is no number: to use it as one raises `ValueNotKnown`.
    """

    @property
    def reason(self) -> str:  # type: ignore[override]
        """Why the value is not known."""
        return "no record was loaded; value() or read() asks for it"
