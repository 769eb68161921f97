"""Counters in the rows of the project's own models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, overload
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.contenttypes.models import ContentType
from django.core import checks
from django.db import connections, models, router
from django.db.models.signals import class_prepared, post_delete

from django_counters.conf import (
    AUTO,
    BOUNDED_STRATEGIES,
    FIELD_STRATEGIES,
    Recipe,
    bounds_problems,
    did_you_mean,
    most_shards,
    shards_problems,
)
from django_counters.exceptions import InitialOutOfBounds, UnsavedInstance
from django_counters.kinds.number import bounds_of_call
from django_counters.kinds.record import Place, apply, can_be_slotted, check_record_id
from django_counters.kinds.registry import registry
from django_counters.kinds.tables import slots
from django_counters.models import SlottedCounter
from django_counters.models.total import Loaded, TotalAttribute, TotalField
from django_counters.stores.sql.dialects import Table
from django_counters.tokens import Token
from django_counters.types import INT8, UNBOUNDED, Bounds, Delta, Reading, check_delta

if TYPE_CHECKING:
    from django.forms import Field as FormField


class CounterValue(Loaded):
    """What ``post.views`` is: the int that was loaded, which can also count.

    Comparing, formatting and calculating work as with any int. Counting changes the row in the
    database, joins the caller's transaction, and leaves the new value on the instance.
    """

    _field: Any  # a CounterField; said so, its descriptor would hide it from type checkers
    _instance: models.Model
    #: Whether the change was made before, by a call with the same token.
    replayed: bool

    def __new__(cls, value: int, field: CounterField, instance: models.Model) -> CounterValue:
        number = super().__new__(cls, value)
        number._field = field
        number._instance = instance
        number.replayed = False
        return number

    def increment(
        self,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> CounterValue:
        """Add ``by`` to the row, in one statement, and return the new value.

        Exact under concurrency, whatever the instance holds. ``floor`` and ``ceiling`` narrow what
        the field declares; only the bound that the value moves towards is asked. With a token the
        change counts once: a repeated call returns what the first one returned, and says so in
        ``replayed``.

        Raises:
            UnsavedInstance: the instance has no row yet.
            RecordMissing: its row is gone.
            InvalidToken, TokenConflict, TokenExpired, RetryTransaction: as for named counters.
            InvalidDelta, InsufficientCount, CeilingExceeded, CounterOverflow, CounterUnavailable,
            ReadOnlyDatabase, OutcomeUnknown: as for named counters.
        """
        bounds = bounds_of_call(floor, ceiling)
        value: CounterValue = self._field.change(
            self._instance, check_delta(by), bounds, using, token
        )
        return value

    def decrement(
        self,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> CounterValue:
        """Subtract ``by`` from the row and return the new value; see `increment`."""
        return self.increment(
            check_delta(-check_delta(by)), floor=floor, ceiling=ceiling, token=token, using=using
        )

    def read(self, *, consistency: str = "exact", using: str | None = None) -> Reading:
        """The value in the database, and what is known of it: total, pending, as of when.

        Raises:
            UnsavedInstance, RecordMissing: there is no row.
            UnsupportedConsistency: the field's strategy does not offer ``consistency``.
        """
        reading: Reading = self._field.read(self._instance, consistency, using)
        return reading

    async def aread(self, *, consistency: str = "exact", using: str | None = None) -> Reading:
        """`read` for async code."""
        return await sync_to_async(self.read)(consistency=consistency, using=using)

    async def aincrement(
        self,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> CounterValue:
        """`increment` for async code."""
        return await sync_to_async(self.increment)(
            by, floor=floor, ceiling=ceiling, token=token, using=using
        )

    async def adecrement(
        self,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> CounterValue:
        """`decrement` for async code."""
        return await sync_to_async(self.decrement)(
            by, floor=floor, ceiling=ceiling, token=token, using=using
        )

    # Templates do not call what changes data.
    increment.alters_data = True  # type: ignore[attr-defined]
    decrement.alters_data = True  # type: ignore[attr-defined]
    aincrement.alters_data = True  # type: ignore[attr-defined]
    adecrement.alters_data = True  # type: ignore[attr-defined]


class CounterAttribute(TotalAttribute):
    """Keeps a plain int on the instance, and hands it out as one that can count."""

    field: CounterField

    def hand_out(self, value: int, instance: models.Model) -> CounterValue:
        return CounterValue(value, self.field, instance)


class CounterField(TotalField):
    """A counter in a column of the model: a BIGINT that starts at zero.

    ``post.views`` is an int, ``post.views.increment()`` counts, ``post.save()`` never overwrites
    what was counted, and ``filter``, ``order_by``, ``F`` and ``values`` work as with any integer.

    Args:
        strategy: where increments wait for their rollup. ``"exact"``: nowhere, the column is the
            value. ``"slotted"``: in rows that writers share without waiting for each other; the
            column alone is the rolled-up value, ``with_counts`` and ``read`` give the exact one.
        slots: how many such rows a record may have; ``"auto"`` means as many as its writers need.
        floor: the value never falls below it by counting; `InsufficientCount` is raised instead.
        ceiling: the value never rises above it by counting; `CeilingExceeded` is raised instead.
    """

    descriptor_class = CounterAttribute
    capacity = INT8

    if TYPE_CHECKING:
        db_index: bool

        @overload
        def __get__(self, instance: None, owner: Any) -> CounterAttribute: ...
        @overload
        def __get__(self, instance: models.Model, owner: Any) -> CounterValue: ...
        @overload
        def __get__(self, instance: Any, owner: Any) -> Self: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...

    def __init__(
        self,
        *args: Any,
        strategy: str = "exact",
        floor: int | None = None,
        ceiling: int | None = None,
        slots: int | str = AUTO,
        **kwargs: Any,
    ) -> None:
        self.strategy = strategy
        self.bounds = Bounds(floor, ceiling)
        self.slots = slots
        if "db_default" not in kwargs:
            kwargs.setdefault("default", 0)
        super().__init__(*args, **kwargs)

    @property
    def non_db_attrs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*super().non_db_attrs, "strategy", "floor", "ceiling", "slots")

    def deconstruct(self) -> tuple[str, str, Any, dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        if self.strategy != "exact":
            kwargs["strategy"] = self.strategy
        if self.slots != AUTO:
            kwargs["slots"] = self.slots
        for bound, number in self.bounds._asdict().items():
            if number is not None:
                kwargs[bound] = number
        return name, path, args, kwargs

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = super().pre_save(model_instance, add)
        if add and not hasattr(value, "resolve_expression"):
            value = self.get_prep_value(value)
        if add and isinstance(value, int) and not self.bounds.hold(value):
            floor, ceiling = self.bounds
            raise InitialOutOfBounds(field=self._label(), value=value, floor=floor, ceiling=ceiling)
        return value

    def save_form_data(self, instance: models.Model, data: Any) -> None:
        # Without a value of its own a new row takes the default of the database.
        if data is not None:
            super().save_form_data(instance, data)

    def formfield(self, *args: Any, **kwargs: Any) -> FormField | None:
        """Shown, but read-only: a form would send back the number that it showed."""
        return super().formfield(*args, **{"disabled": True, "required": False, **kwargs})

    def change(
        self,
        instance: models.Model,
        by: int,
        called: Bounds,
        using: str | None,
        token: object = None,
    ) -> CounterValue:
        """Change the row of one instance and return the new value; `CounterValue` is its face."""
        alias = using or router.db_for_write(type(instance), instance=instance)
        key = self._key(instance, alias)
        bounds = self.bounds if called is UNBOUNDED else self.bounds.stricter(called)
        strategy = registry.strategy(self._recipe, self.table, alias)
        value = apply(Delta(key, by, bounds), strategy, self.table, alias, token)
        if not getattr(value, "replayed", False):
            instance.__dict__[self.attname] = int(value)
        number = CounterValue(value, self, instance)
        number.replayed = getattr(value, "replayed", False)
        return number

    def read(self, instance: models.Model, consistency: str, using: str | None) -> Reading:
        """Read the value of one instance; `CounterValue` is its face."""
        alias = using or router.db_for_read(type(instance), instance=instance)
        strategy = registry.strategy(self._recipe, self.table, alias)
        return strategy.read(self._key(instance, alias), consistency)

    def _key(self, instance: models.Model, alias: str) -> Any:
        """What finds the row of an instance."""
        key_field = self.model._meta.pk
        key = getattr(instance, key_field.attname)
        if instance._state.adding or key is None:
            raise UnsavedInstance(key=f"{self._label()}:{key}")
        stored = key_field.get_db_prep_value(key, connections[alias])
        if self.strategy == "slotted":
            check_record_id(stored)
        return stored

    def forget_slots(self, instance: models.Model, using: str, **_: Any) -> None:
        """Receives ``post_delete``: a new record with the same key starts at zero."""
        key = self.model._meta.pk.get_db_prep_value(instance.pk, connections[using])
        kind = ContentType.objects.db_manager(using).get_for_model(self.model)
        SlottedCounter._base_manager.using(using).filter(
            record_type=kind, record_id=str(key), name=self.name
        ).delete()

    def place(self) -> Place:
        """Where the totals stand, for those who count in slots."""
        return Place(self.table, Recipe("slotted", most_shards(self.slots)), self.bounds)

    @cached_property
    def _recipe(self) -> Recipe:
        return Recipe(self.strategy, most_shards(self.slots))

    @cached_property
    def table(self) -> Table:
        """Where the totals of this field stand, and where increments of it wait."""
        options = self.model._meta
        return Table(
            name=options.db_table,
            key=str(options.pk.column),
            value=str(self.column),
            pending=slots(self.model, self.name),
            capacity=self.capacity,
            label=self._label(),
        )

    def _label(self) -> str:
        return f"{self.model._meta.label}.{self.name}"

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        return [*super().check(**kwargs), *self._check_counter()]

    def _check_counter(self) -> Iterator[checks.CheckMessage]:
        yield from self._check_strategy()
        yield from self._check_bounds()
        if self.null:
            yield self._error("E012", "A counter cannot be null: it starts at zero.")
        if self.primary_key:
            yield self._error("E013", "A counter cannot be a primary key.")
        elif self._is_indexed():
            yield self._warning("W010", "An index on a counter slows down every increment.")
        if len(self.model._meta.pk_fields) > 1:
            yield self._error("E014", "Models with a composite primary key cannot count yet.")

    def _check_strategy(self) -> Iterator[checks.CheckMessage]:
        if self.strategy not in FIELD_STRATEGIES:
            guess = did_you_mean(self.strategy, FIELD_STRATEGIES)
            if self.strategy == "sharded":
                guess = " Shards belong to named counters; a field is 'slotted'."
            yield self._error("E010", f"The strategy {self.strategy!r} is unknown.{guess}")
        elif self.strategy not in BOUNDED_STRATEGIES and self.bounds != UNBOUNDED:
            yield self._error(
                "E016", f"{self.strategy} cannot hold a floor or a ceiling, exact can."
            )
        elif self.strategy == "slotted" and not can_be_slotted(self.model):
            yield self._error("E018", "Slots need an integer, UUID or text as primary key.")
        for problem in shards_problems(self.slots):
            yield self._error("E017", f"Its slots are wrong: {problem}")

    def _check_bounds(self) -> Iterator[checks.CheckMessage]:
        wrong = list(bounds_problems(*self.bounds))
        for problem in wrong:
            yield self._error("E011", f"Its bounds are wrong: {problem}")
        if not wrong and isinstance(self.default, int) and not self.bounds.hold(self.default):
            yield self._error("E015", f"The default {self.default} is out of its bounds.")

    def _is_indexed(self) -> bool:
        options = self.model._meta
        declared = (name for index in options.indexes for name, _ in index.fields_orders)
        return self.db_index or self.unique or self.name in declared

    def _error(self, code: str, message: str) -> checks.CheckMessage:
        return checks.Error(message, hint=check_hint(code), obj=self, id=f"counters.{code}")

    def _warning(self, code: str, message: str) -> checks.CheckMessage:
        return checks.Warning(message, hint=check_hint(code), obj=self, id=f"counters.{code}")


class IntegerCounterField(CounterField):
    """A `CounterField` in a 32-bit column, to adopt an existing ``IntegerField`` as it is.

    PostgreSQL rewrites a table whose column becomes a BIGINT. This field leaves it an INTEGER;
    its values end at ±2³¹.
    """

    capacity = (-(2**31), 2**31 - 1)

    def get_internal_type(self) -> str:
        return "IntegerField"


def follow_deletes(sender: type[models.Model], **_: Any) -> None:
    """Receives ``class_prepared``: what is deleted through a proxy is told of the proxy alone."""
    # The models of old migrations have nothing to forget.
    if sender._meta.abstract or sender.__module__ == "__fake__":
        return
    for field in counter_fields(sender):
        if field.strategy == "slotted" and (sender._meta.proxy or field.model is sender):
            post_delete.connect(field.forget_slots, sender=sender)


class_prepared.connect(follow_deletes)


def counter_fields(model: type[models.Model]) -> list[CounterField]:
    """The counter fields of a model, inherited ones too."""
    return [field for field in model._meta.concrete_fields if isinstance(field, CounterField)]


def check_hint(code: str) -> str:
    """Where the documentation explains a check."""
    return f"See reference/checks.html#counters-{code.lower()} in the documentation."
