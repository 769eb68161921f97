"""The field of amounts with decimal places: integers in the database, `Decimal` in Python."""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, overload

from django import forms
from django.conf import settings
from django.core.exceptions import FieldError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from django_counters.exceptions import InvalidDelta
from django_counters.fields.amounts import (
    AmountNotLoaded,
    AmountOf,
    CountedAmount,
    CounterAmount,
)
from django_counters.fields.columns import CounterAttribute, CounterField
from django_counters.fields.units import (
    AmountField,
    amount_of,
    in_amounts,
    units_class,
    units_of,
)
from django_counters.fields.values import CounterValue
from django_counters.tables.total import Loaded
from django_counters.types import INT8
from django_counters.values import Counted, Replayed, Unknown


class DecimalAttribute(CounterAttribute):
    """Keeps units on the instance, takes amounts, and hands them out as ones that can count."""

    field: DecimalCounterField
    of_class = AmountOf
    not_loaded_class = AmountNotLoaded

    if TYPE_CHECKING:

        def of(self, key: object) -> AmountOf: ...

    def __set__(self, instance: models.Model, value: Any) -> None:
        # As that of the base. A call of it would be one frame more, and the warning names a line.
        name, kept = self.field.attname, self._kept(value)
        if not instance._state.adding and settings.DEBUG:
            self._watch(instance, name, kept)
        if not isinstance(kept, Unknown):
            self._keep(instance, kept)

    def _kept(self, value: Any) -> Any:
        """The units of an amount, with what is known of where it comes from."""
        if isinstance(value, _Shown | Unknown):
            return value
        units = self.field.get_prep_value(value)
        if isinstance(value, CounterAmount):
            return CounterValue(units, value._field, value._instance)
        if isinstance(value, CountedAmount):
            return Replayed(units) if value.replayed else Counted(units)
        return units

    def hand_out(self, value: int, instance: models.Model) -> Any:
        return CounterAmount(value, self.field, instance)


class _Shown(Loaded):
    """Units that a form has shown."""


class DecimalCounterField(AmountField, CounterField):  # type: ignore[misc]
    """A `CounterField` of amounts: ``balance = DecimalCounterField(places=2)``.

    ``account.balance`` is a `Decimal`, ``account.balance.increment(Decimal("12.50"))`` counts. The
    column is the same BIGINT, of units: 12.50 is 1250. So sums are exact in every database, and
    nothing is ever rounded: numbers with more places are refused, and so are floats. Amounts have
    64 bits together: with two places they end at ±92,233,720,368,547,758.07.

    Takes the arguments of `CounterField` but ``once``, and of these ``floor``, ``ceiling``,
    ``approve_above`` and ``default`` are amounts.

    Args:
        places: how many decimal places an amount has, from 1 to 18.
    """

    descriptor_class = DecimalAttribute
    plain_class = AmountField

    def __init__(self, *args: Any, places: int, **kwargs: Any) -> None:
        self.places = places
        names = ("floor", "ceiling", "approve_above")
        self._amounts = {name: kwargs[name] for name in names if kwargs.get(name) is not None}
        units = {name: self.declared_units(one) for name, one in self._amounts.items()}
        super().__init__(*args, places=places, **kwargs | units)

    if TYPE_CHECKING:
        _validators: list[Any]
        _pyi_lookup_exact_type: Decimal | int | str  # type: ignore[assignment]

        @overload  # type: ignore[override]
        def __get__(self, instance: None, owner: Any) -> DecimalAttribute: ...
        @overload
        def __get__(self, instance: models.Model, owner: Any) -> CounterAmount: ...
        @overload
        def __get__(self, instance: Any, owner: Any) -> Self: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...

    @property
    def non_db_attrs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*super().non_db_attrs, "places")

    def deconstruct(self) -> tuple[str, str, Any, dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        path = path.replace("django_counters.fields.decimals", "django_counters.fields")
        return name, path, args, {**kwargs, **self._amounts}

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        if hasattr(value, "as_sql") and not self.is_same(value):
            raise FieldError(f"{value} isn't a counter with {self.places} decimal places.")
        return super().get_db_prep_save(value, connection)

    def units(self, amount: Any) -> Any:
        return units_of(amount, self.places)

    def declared_units(self, amount: Any) -> Any:
        """The units of an amount, or what was declared instead, for the check to refuse."""
        try:
            return units_of(amount, self.places) if self.has_places else amount
        except InvalidDelta:
            return amount

    @property
    def exact_field(self) -> models.Field[Any, Any]:
        return units_class(self.places)()

    @cached_property
    def validators(self) -> list[Any]:
        if not self.has_places:
            return []
        floor, ceiling = (
            amount_of(declared if isinstance(declared, int) else end, self.places)
            for declared, end in zip(self.bounds, INT8, strict=True)
        )
        ends = [MinValueValidator(floor), MaxValueValidator(ceiling)]
        return [*ends, *self._validators]

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        with in_amounts([self]):
            value = super().pre_save(model_instance, add)
        # An inserted amount becomes units again.
        return amount_of(value, self.places) if isinstance(value, int) else value

    def value_from_object(self, obj: models.Model) -> Any:
        value = super().value_from_object(obj)
        return Decimal(value) if isinstance(value, Decimal) else value

    def save_form_data(self, instance: models.Model, data: Any) -> None:
        units = self.get_prep_value(data)
        super().save_form_data(instance, None if units is None else _Shown(units))

    def formfield(self, *args: Any, **kwargs: Any) -> forms.Field | None:
        """Shown, but read-only, as that of a `CounterField`."""
        limits = {"min_value": None, "max_value": None, "decimal_places": self.places}
        return super().formfield(*args, **{"form_class": forms.DecimalField, **limits, **kwargs})
