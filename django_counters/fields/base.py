"""The declaration of a counter field, and how the rows of its column are counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connections, models, router

from django_counters.conf import (
    COMMON,
    EXACT,
    absent_option,
    field_options,
    field_strategies,
    measure_of,
)
from django_counters.exceptions import (
    CounterError,
    InitialOutOfBounds,
    InvalidDelta,
    UnsavedInstance,
)
from django_counters.features import forgetting
from django_counters.measure import Measure
from django_counters.projections.event import PLAIN, Event
from django_counters.projections.quotas import value_ceiling
from django_counters.read.values import check_age
from django_counters.registry import in_effect, registry
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.tables import slots
from django_counters.strategies import slotted
from django_counters.strategies.declaring import MAX_AGE, Recipe
from django_counters.tables.total import AssignedNumber, Loaded, TotalField
from django_counters.tokens import optional_token
from django_counters.types import INT8, Bounds, Reading
from django_counters.values import Result
from django_counters.write.change import Change, Ref
from django_counters.write.pipeline import change
from django_counters.write.records import CounterColumn, check_record_id

if TYPE_CHECKING:
    from django.forms import Field as FormField


# What migrations do not name where it is like this. Those of strategies and projections come to it.
_COMMON = {option.key: option.default for option in COMMON}


class BaseCounterField(TotalField):
    """The column of a `CounterField`, without what instances of its model show of it."""

    capacity = INT8

    if TYPE_CHECKING:
        db_index: bool

    def __init__(
        self,
        *args: Any,
        strategy: str = "exact",
        floor: int | None = None,
        approve_above: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.strategy = strategy
        self.approve_above = approve_above
        # What strategies and projections declare for fields, as far as it was given.
        self.options = {name: kwargs.pop(name) for name in field_options() if name in kwargs}
        self.bounds = Bounds(floor, value_ceiling(self.options.get("ceiling")))
        if "db_default" not in kwargs:
            kwargs.setdefault("default", 0)
        try:
            super().__init__(*args, **kwargs)
        except TypeError as error:
            for name in kwargs:
                if app := absent_option(name, of_field=True):
                    raise ImproperlyConfigured(f"{name} needs {app} in INSTALLED_APPS.") from error
            raise

    def contribute_to_class(
        self,
        cls: type[models.Model],
        name: str,
        private_only: bool = False,
    ) -> None:
        """Add it to a model. A copy of another model's field counts nothing.

        Packages that keep the history of a model copy its fields.
        """
        owner: Any = vars(self).get("model")
        # A child gets a copy of the field of an abstract parent.
        if owner is not None and owner is not cls and not owner._meta.abstract:
            self.__class__ = type(self).plain_class  # type: ignore[assignment]
            for own in set(vars(self)) - set(vars(self.clone())):
                del vars(self)[own]
            self.contribute_to_class(cls, name, private_only)
            return
        super().contribute_to_class(cls, name, private_only)

    def units(self, amount: Any) -> Any:
        """Return the column's number for a caller's number; `present` is its inverse."""
        return amount

    def declared_units(self, amount: Any) -> Any:
        """Return the same for the field's declaration, right or wrong."""
        return amount

    def present_error(self, error: CounterError) -> None:
        """Replace the column's numbers in an error about this field by those of callers."""

    @property
    def exact_field(self) -> models.Field[Any, Any]:
        """The exact value as a field for expressions."""
        return models.BigIntegerField()

    @property
    def non_db_attrs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*super().non_db_attrs, *_COMMON, *field_options())

    def deconstruct(self) -> tuple[str, str, Any, dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        # Migrations name the package, not the file in it.
        path = path.replace("django_counters.fields.columns", "django_counters.fields")
        options = field_options(self.strategy).values()
        defaults = {**_COMMON, **{option.name: option.default for option in options}}
        common = {"strategy": self.strategy, "approve_above": self.approve_above}
        declared = {**common, "floor": self.bounds.floor, **self.options}
        kwargs.update({key: value for key, value in declared.items() if value != defaults[key]})
        return name, path, args, kwargs

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = super().pre_save(model_instance, add)
        if add and not hasattr(value, "resolve_expression"):
            value = self.get_prep_value(value)
        if not add or not isinstance(value, int):
            return value
        copied = self._is_of_a_row(model_instance)
        if value and self.measure and self.measure.counts_actors:
            if not copied:
                reason = f"{self._label()} counts actors, so it starts at 0"
                raise InvalidDelta(delta=value, reason=reason)
            # The actors stay with the record that they have counted.
            value = model_instance.__dict__[self.attname] = 0
        kept = model_instance.__dict__.get(self.attname)
        if isinstance(kept, AssignedNumber) or not isinstance(kept, int):
            # Its row never had this number or text, so a copy can't have it either.
            copied = False
        if not copied and not self.bounds.hold(value):
            floor, ceiling = self.bounds
            raise InitialOutOfBounds(field=self._label(), value=value, floor=floor, ceiling=ceiling)
        return value

    def _is_of_a_row(self, instance: models.Model) -> bool:
        """Return whether an instance has a row's number: its own, or the one that it copies."""
        # Django sets `adding` when it has loaded or saved a row, and a caller who copies one sets
        # it again. It sets `db` on a new instance too, for a related object.
        return "adding" in vars(instance._state) or isinstance(
            instance.__dict__.get(self.attname), Loaded
        )

    @cached_property
    def validators(self) -> list[Any]:
        """Those of the bounds come first: REST framework takes the first of a kind."""
        floor, ceiling = self.bounds
        lower = [] if floor is None else [MinValueValidator(floor)]
        upper = [] if ceiling is None else [MaxValueValidator(ceiling)]
        return [*lower, *upper, *super().validators]

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        # The value in a row is not written, so the user need not correct it, nor that of a copy.
        if model_instance is None or not self._is_of_a_row(model_instance):
            return super().clean(value, model_instance)
        return value

    def save_form_data(self, instance: models.Model, data: Any) -> None:
        # Without a value of its own a new row takes the default of the database. In a form of one
        # that exists it is what was shown.
        if data is not None:
            super().save_form_data(instance, Loaded(data) if type(data) is int else data)

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
        immediately: bool = False,
        event: Event = PLAIN,
    ) -> Result:
        """Change the row of one instance; `CounterValue` is its face."""
        ref = self.ref(instance, using)
        given = optional_token(token)
        result = change(Change(ref, by, called, None, given, immediately, event=event))
        # Where no number is known, the value of the instance stays as it is.
        if result.value is not None and not result.replayed:
            instance.__dict__[self.attname] = result.value
        return result

    def ref(self, instance: models.Model, using: str | None) -> Ref:
        """The counter of one instance, to be changed."""
        alias = using or router.db_for_write(type(instance), instance=instance)
        key, measure = self._key(instance, alias), self.measure
        return Ref(self.table, key, self.recipe, self.bounds, alias, measure=measure)

    def read(
        self,
        instance: models.Model,
        consistency: str,
        using: str | None,
        max_age: float | None = None,
    ) -> Reading:
        """Read the value of one instance; `CounterValue` is its face."""
        age = MAX_AGE if max_age is None else check_age(max_age)
        # A replica lags: landed increments would be in neither Redis nor the replica.
        find = router.db_for_write if self.recipe.can.outside else router.db_for_read
        alias = using or find(type(instance), instance=instance)
        strategy = registry.strategy(self.recipe, self.table, alias)
        return strategy.read(self._key(instance, alias), consistency, age)

    def load(self, instances: Sequence[models.Model], max_age: float | None) -> None:
        """Let instances that were loaded together hold the present values."""
        # Where they were loaded from may lag.
        alias = router.db_for_write(type(instances[0]), instance=instances[0])
        keys = {self._key(instance, alias): instance for instance in instances}
        values = registry.strategy(self.recipe, self.table, alias).values(keys, max_age)
        for key, instance in keys.items():
            instance.__dict__[self.attname] = values.get(key, 0)

    def _key(self, instance: models.Model, alias: str) -> Any:
        """What finds the row of an instance."""
        key_field = self.model._meta.pk
        key = getattr(instance, key_field.attname)
        if instance._state.adding or key is None:
            raise UnsavedInstance(key=f"{self._label()}:{key}")
        stored = key_field.get_db_prep_value(key, connections[alias])
        if self.recipe.can.slots or self.measure is not None:
            check_record_id(stored)
        return stored

    def place(self) -> CounterColumn:
        """Where the totals stand, for those who count in slots."""
        slots = slotted.DECLARED if self.recipe.can.slots else slotted.ELSEWHERE
        recipe = slots.recipe(self.options, of_field=True)
        return CounterColumn(self.table, recipe, self.bounds, self.measure)

    def declared(self) -> CounterColumn:
        """Where the totals stand, for those who count as the field declares it."""
        return CounterColumn(self.table, self.recipe, self.bounds, self.measure)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of this field's strategy."""
        declared = field_strategies().get(self.strategy)
        # A check tells of a strategy that there is not.
        recipe = declared.recipe(self.options, of_field=True) if declared else EXACT
        return in_effect(recipe)

    @property
    def leaves_rows(self) -> bool:
        """Return whether a deleted record would leave something of its counter behind."""
        own = self.recipe.can.slots or self.recipe.can.outside or self.measure
        return bool(own or any(one.keeps_rows(self) for one in forgetting()))

    @cached_property
    def measure(self) -> Measure | None:  # type: ignore[override]
        """The measure beside the total; None where none is declared."""
        return measure_of(self._label(), self.options)

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
