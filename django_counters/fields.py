"""Counters in the rows of the project's own models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, overload

from asgiref.sync import sync_to_async
from django.core import checks
from django.db import connections, models, router

from django_counters.conf import STRATEGIES, bounds_problems, did_you_mean
from django_counters.exceptions import InitialOutOfBounds, UnsavedInstance
from django_counters.kinds.number import bounds_of_call
from django_counters.kinds.registry import registry
from django_counters.models.total import Loaded, TotalAttribute, TotalField
from django_counters.stores.sql.dialects import Table
from django_counters.types import INT8, UNBOUNDED, Batch, Bounds, Delta, check_delta

if TYPE_CHECKING:
    from django.forms import Field as FormField


class CounterValue(Loaded):
    """What ``post.views`` is: the int that was loaded, which can also count.

    Comparing, formatting and calculating work as with any int. Counting changes the row in the
    database, joins the caller's transaction, and leaves the new value on the instance.
    """

    _change: Callable[[int, Bounds, str | None], CounterValue]

    def __new__(
        cls, value: int, change: Callable[[int, Bounds, str | None], CounterValue]
    ) -> CounterValue:
        number = super().__new__(cls, value)
        number._change = change
        return number

    def increment(
        self,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        using: str | None = None,
    ) -> CounterValue:
        """Add ``by`` to the row, in one statement, and return the new value.

        Exact under concurrency, whatever the instance holds. ``floor`` and ``ceiling`` narrow what
        the field declares; only the bound that the value moves towards is asked.

        Raises:
            UnsavedInstance: the instance has no row yet.
            RecordMissing: its row is gone.
            InvalidDelta, InsufficientCount, CeilingExceeded, CounterOverflow, CounterUnavailable,
            ReadOnlyDatabase, OutcomeUnknown: as for named counters.
        """
        bounds = bounds_of_call(floor, ceiling)
        return self._change(check_delta(by), bounds, using)

    def decrement(
        self,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        using: str | None = None,
    ) -> CounterValue:
        """Subtract ``by`` from the row and return the new value; see `increment`."""
        bounds = bounds_of_call(floor, ceiling)
        return self._change(check_delta(-check_delta(by)), bounds, using)

    async def aincrement(
        self,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        using: str | None = None,
    ) -> CounterValue:
        """`increment` for async code."""
        return await sync_to_async(self.increment)(by, floor=floor, ceiling=ceiling, using=using)

    async def adecrement(
        self,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        using: str | None = None,
    ) -> CounterValue:
        """`decrement` for async code."""
        return await sync_to_async(self.decrement)(by, floor=floor, ceiling=ceiling, using=using)

    # Templates do not call what changes data.
    increment.alters_data = True  # type: ignore[attr-defined]
    decrement.alters_data = True  # type: ignore[attr-defined]
    aincrement.alters_data = True  # type: ignore[attr-defined]
    adecrement.alters_data = True  # type: ignore[attr-defined]


class CounterAttribute(TotalAttribute):
    """Keeps a plain int on the instance, and hands it out as one that can count."""

    field: CounterField

    def hand_out(self, value: int, instance: models.Model) -> CounterValue:
        return CounterValue(value, partial(self.field.change, instance))


class CounterField(TotalField):
    """A counter in a column of the model: a BIGINT that starts at zero.

    ``post.views`` is an int, ``post.views.increment()`` counts, ``post.save()`` never overwrites
    what was counted, and ``filter``, ``order_by``, ``F`` and ``values`` work as with any integer.

    Args:
        strategy: where increments wait for their rollup; ``"exact"`` is in place at once.
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
        **kwargs: Any,
    ) -> None:
        self.strategy = strategy
        self.bounds = Bounds(floor, ceiling)
        if "db_default" not in kwargs:
            kwargs.setdefault("default", 0)
        super().__init__(*args, **kwargs)

    @property
    def non_db_attrs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*super().non_db_attrs, "strategy", "floor", "ceiling")

    def deconstruct(self) -> tuple[str, str, Any, dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        if self.strategy != "exact":
            kwargs["strategy"] = self.strategy
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
        self, instance: models.Model, by: int, called: Bounds, using: str | None
    ) -> CounterValue:
        """Change the row of one instance and return the new value; `CounterValue` is its face."""
        key_field = self.model._meta.pk
        key = getattr(instance, key_field.attname)
        if instance._state.adding or key is None:
            raise UnsavedInstance(key=f"{self._label()}:{key}")
        alias = using or router.db_for_write(type(instance), instance=instance)
        stored = key_field.get_db_prep_value(key, connections[alias])
        bounds = self.bounds if called is UNBOUNDED else self.bounds.stricter(called)
        strategy = registry.strategy(self.strategy, self._table, alias)
        value = strategy.apply(Batch((Delta(stored, by, bounds),)))[stored]
        instance.__dict__[self.attname] = value
        return CounterValue(value, partial(self.change, instance))

    @cached_property
    def _table(self) -> Table:
        options = self.model._meta
        return Table(
            name=options.db_table,
            key=str(options.pk.column),
            value=str(self.column),
            capacity=self.capacity,
            label=self._label(),
        )

    def _label(self) -> str:
        return f"{self.model._meta.label}.{self.name}"

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        return [*super().check(**kwargs), *self._check_counter()]

    def _check_counter(self) -> Iterator[checks.CheckMessage]:
        if self.strategy not in STRATEGIES:
            guess = did_you_mean(self.strategy, STRATEGIES)
            yield self._error("E010", f"The strategy {self.strategy!r} is unknown.{guess}")
        wrong = list(bounds_problems(*self.bounds))
        for problem in wrong:
            yield self._error("E011", f"Its bounds are wrong: {problem}")
        if not wrong and isinstance(self.default, int) and not self.bounds.hold(self.default):
            yield self._error("E015", f"The default {self.default} is out of its bounds.")
        if self.null:
            yield self._error("E012", "A counter cannot be null: it starts at zero.")
        if self.primary_key:
            yield self._error("E013", "A counter cannot be a primary key.")
        elif self._is_indexed():
            yield self._warning("W010", "An index on a counter slows down every increment.")
        if len(self.model._meta.pk_fields) > 1:
            yield self._error("E014", "Models with a composite primary key cannot count yet.")

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


def counter_fields(model: type[models.Model]) -> list[CounterField]:
    """The counter fields of a model, inherited ones too."""
    return [field for field in model._meta.concrete_fields if isinstance(field, CounterField)]


def check_hint(code: str) -> str:
    """Where the documentation explains a check."""
    return f"See reference/checks.html#counters-{code.lower()} in the documentation."
