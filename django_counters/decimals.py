"""Counters of amounts with decimal places: integers in the database, `Decimal` in Python.

A project without a `DecimalCounterField` never imports this module. A column has **units**, and
callers have **amounts**: with two places 12.50 is 1250 units. Other parts of the package let the
field convert: `units`, `present` and `present_error`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import (
    ROUND_05UP,
    ROUND_CEILING,
    ROUND_FLOOR,
    Context,
    Decimal,
    Inexact,
    InvalidOperation,
)
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self, overload

from django import forms
from django.conf import settings
from django.core import checks
from django.core.exceptions import EmptyResultSet, FieldError, FullResultSet, ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Variance
from django.db.models.expressions import Col, Combinable, register_combinable_fields
from django.db.models.lookups import IExact, PatternLookup, Regex

from django_counters.errors import CounterError, InvalidDelta
from django_counters.fields.columns import CounterAttribute, CounterField
from django_counters.fields.values import CounterOf, CounterValue, Counting, NotLoaded, SavedRaw
from django_counters.hints import message_of
from django_counters.options import is_integer
from django_counters.tables.total import Loaded, PlainColumn
from django_counters.twins import alters_data
from django_counters.types import INT8, Amount, Counted, Replayed, Result, Unknown

if TYPE_CHECKING:
    from django_counters.adjustments.models import CounterAdjustment

    _Field = models.Field[Any, Any]
    _DecimalField = models.DecimalField[Any, Any]
else:
    _Field = models.Field
    _DecimalField = models.DecimalField

MOST_PLACES = 18
# Of 64 bits. More digits, as of 1.000, are zeros.
_EXACT = Context(prec=40, traps=[Inexact, InvalidOperation])
# Sums and averages have fewer digits, and compare with the rounded number as with the exact one.
_WIDE = Context(prec=40, rounding=ROUND_05UP, Emin=-40, Emax=60, traps=[])
# A whole number is above 12.5 if it is above 12, and at least 12.5 if it is at least 13.
_ROUNDING = {"gt": ROUND_FLOOR, "lte": ROUND_FLOOR, "gte": ROUND_CEILING, "lt": ROUND_CEILING}
_OF_TEXTS = (IExact, PatternLookup, Regex)
# The attributes of errors that are amounts of a counter.
_AMOUNTS = (
    *("requested", "available", "floor", "ceiling", "low", "high"),
    *("expected", "current", "delta", "limit", "value"),
)


def units_of(amount: object, places: int) -> int:
    """The units of an amount: of 12.5 with two places they are 1250. Nothing is rounded.

    Raises:
        InvalidDelta: it is no `Decimal` and no integer, or has more places, or more than 64 bits.
    """
    number = Decimal(amount) if type(amount) is not bool and isinstance(amount, int) else amount
    if not isinstance(number, Decimal):
        reason = f"it is a {type(amount).__name__}, only Decimal and integers are"
        raise InvalidDelta(delta=amount, reason=reason)
    if not number.is_finite():
        raise InvalidDelta(delta=amount, reason="it is no number")
    low, high = INT8
    try:
        units = _EXACT.to_integral_exact(_EXACT.scaleb(number, places))
    except (Inexact, InvalidOperation):
        if number.adjusted() < len(str(high)):
            reason = f"it has more than {places} decimal places"
            raise InvalidDelta(delta=amount, reason=reason) from None
        units = number
    if not low <= units <= high:
        raise InvalidDelta(delta=amount, reason="it does not fit into 64 bits")
    return int(units)


def amount_of(units: int, places: int) -> Decimal:
    """The amount of so many units, in any decimal context."""
    return Decimal(f"{units}E-{places}")


@contextmanager
def _in_amounts(field: CounterField) -> Iterator[None]:
    """Give errors that leave the block amounts, not units."""
    try:
        yield
    except CounterError as error:
        field.present_error(error)
        raise


class Scaled:
    """Converts units from the database to amounts, and amounts to units."""

    is_whole = False
    places: Any

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:  # noqa: ARG002
        """The amount. An average has more places than the column."""
        if value is None:
            return None
        places = _places_in(expression, self.places)
        if isinstance(value, int):
            return amount_of(value, places)
        sign, digits, exponent = Decimal(str(value)).as_tuple()
        return Decimal((sign, digits, int(exponent) - places))

    def get_prep_value(self, value: Any) -> Any:
        """The units of an amount, which may be a text, as addresses have it."""
        if isinstance(value, _Compared):
            return value.units
        if value is None or hasattr(value, "resolve_expression"):
            return value
        try:
            number = Decimal(value) if isinstance(value, str) else value
        except InvalidOperation:
            raise InvalidDelta(delta=value, reason="it is no number") from None
        return units_of(number, self.places)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """The same for the database. A sum or an average is compared with a `Decimal`."""
        units = value if prepared else self.get_prep_value(value)
        if isinstance(units, Decimal):
            # In SQLite a Decimal is a text, and larger than any number.
            return float(units) if connection.vendor == "sqlite" else units
        return connection.ops.adapt_integerfield_value(units, "BigIntegerField")

    def get_lookup(self, lookup_name: str) -> Any:
        """Return Django's lookup, but it compares with the same units alone, and with any number.

        There are no lookups of texts: the text of a column is that of its units.
        """
        # Those of integers would look up the range of a DecimalField.
        found = Units.get_class_lookups().get(lookup_name)
        return None if found is None or issubclass(found, _OF_TEXTS) else _among_equals(found)

    def to_python(self, value: Any) -> Any:
        """The amount, of a text too."""
        try:
            units = self.get_prep_value(value)
        except InvalidDelta as error:
            raise ValidationError(str(error), code="invalid") from error
        return units if units is None else amount_of(units, self.places)

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        """A BIGINT."""
        return models.BigIntegerField().db_type(connection)

    def is_same(self, expression: Any) -> bool:
        """Whether an expression is in the same units."""
        field = getattr(expression, "_output_field_or_none", None) or expression.output_field
        return isinstance(field, Scaled) and field.places == self.places


class Units(Scaled, _Field):
    """The type of a column of units in expressions. It mixes with no other type."""


class AmountField(Scaled, PlainColumn, _DecimalField):
    """Amounts in a column of units that nobody counts: the copy of a `DecimalCounterField`.

    To Django and to packages it is a ``DecimalField``, by its class and by its name. Its column is
    a BIGINT.
    """

    def __init__(self, *args: Any, places: int, **kwargs: Any) -> None:
        self.places = places
        kwargs = {**kwargs, "max_digits": len(str(INT8[1])), "decimal_places": places}
        super().__init__(*args, **kwargs)
        if self.has_places:
            self.plain_class = units_class(places)

    @property
    def has_places(self) -> bool:
        """Whether the number of places is one; a check tells where it is not."""
        return is_integer(self.places, 1, MOST_PLACES)

    def deconstruct(self) -> tuple[str, str, Any, dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        del kwargs["max_digits"], kwargs["decimal_places"]
        return name, path, args, {**kwargs, "places": self.places}

    def _no_problems(self, *_args: Any, **_: Any) -> list[checks.CheckMessage]:
        return []

    # Of the digits that a `DecimalField` declares.
    _check_decimal_places = _check_max_digits = _no_problems
    _check_decimal_places_and_max_digits = _no_problems

    def cast_db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return models.BigIntegerField().cast_db_type(connection)


@cache
def units_class(places: int) -> type[Units]:
    """The kind of expressions with so many places, and of their sums and multiples."""
    kind = type(f"Units{places}", (Units,), {"places": places, "__module__": __name__})
    integer = models.IntegerField
    for left, connector, right in (
        (kind, Combinable.ADD, kind),
        (kind, Combinable.SUB, kind),
        (kind, Combinable.MUL, integer),
        (integer, Combinable.MUL, kind),
    ):
        register_combinable_fields(left, connector, right, kind)
    return kind


def _places_in(expression: Any, places: int) -> int:
    """Return the places of an expression: a square of units has twice as many."""
    return places * 2 if isinstance(expression, Variance) else places


class _Compared(NamedTuple):
    """A number that a lookup compares with, in units."""

    units: int | Decimal
    #: What the lookup finds without the database: no row, or all rows.
    result: type[Exception] | None = None


def _scaled(value: Any, places: int) -> Decimal:
    """Return the units of a number that amounts are compared with: of 12.555 they are 1255.5."""
    try:
        number = Decimal(str(value) if isinstance(value, float) else value)
        sign, digits, exponent = number.as_tuple()
        return Decimal((sign, digits, exponent + places))  # type: ignore[operator]
    except (InvalidOperation, TypeError, ValueError) as error:
        # As Django's DecimalField.
        message = models.DecimalField.default_error_messages["invalid"]
        raise ValidationError(message, code="invalid", params={"value": value}) from error


def _compared(lhs: Any, name: str, value: Any) -> Any:
    """Return a value of a lookup, in whole units for a column."""
    if value is None or hasattr(value, "resolve_expression"):
        return value
    units, (low, high) = _scaled(value, _places_in(lhs, lhs.output_field.places)), INT8
    inside = low <= units <= high
    whole = units.to_integral_value(_ROUNDING.get(name)) if inside else units
    if inside and (whole == units or (name in _ROUNDING and isinstance(lhs, Col))):
        return _Compared(int(whole))
    if not isinstance(lhs, Col):
        # A sum may be larger than any column, and an average is rarely whole.
        return _Compared(_WIDE.plus(units))
    is_true = name in (("gt", "gte") if units < low else ("lt", "lte"))
    return _Compared(units, FullResultSet if is_true else EmptyResultSet)


def _prepared(lhs: Any, name: str, rhs: Any) -> tuple[Any, type[Exception] | None]:
    """Return the right-hand side of a lookup in units, and its result if that is known."""
    if name == "in":
        given = [_compared(lhs, "exact", one) for one in rhs]
        return [one for one in given if getattr(one, "result", None) is None], None
    if name == "range":
        ends = [_compared(lhs, *end) for end in zip(("gte", "lte"), rhs, strict=True)]
        results = [getattr(end, "result", None) for end in ends]
        every = zip(ends, results, INT8, strict=True)
        within = [_Compared(whole) if result else end for end, result, whole in every]
        return within, EmptyResultSet if EmptyResultSet in results else None
    if name == "exact" or name in _ROUNDING:
        compared = _compared(lhs, name, rhs)
        return compared, getattr(compared, "result", None)
    return rhs, None


@cache
def _among_equals(lookup: type[models.Lookup[Any]]) -> type[models.Lookup[Any]]:
    """Return a lookup that compares units with the same units, and with amounts."""

    class AmongEquals(lookup):  # type: ignore[misc, valid-type]
        rhs: Any
        result: type[Exception] | None = None

        def get_prep_lookup(self) -> Any:
            direct, field = not hasattr(self.rhs, "resolve_expression"), self.lhs.output_field
            many = direct and self.lookup_name in ("in", "range")
            given = list(self.rhs) if many else [self.rhs]
            for one in given:
                if hasattr(one, "resolve_expression") and not field.is_same(one):
                    raise FieldError(f"{one} isn't a counter with {field.places} decimal places.")
            if direct:
                rhs = given if many else self.rhs
                self.rhs, self.result = _prepared(self.lhs, self.lookup_name, rhs)
            return super().get_prep_lookup()

        def process_rhs(self, *args: Any) -> Any:
            if self.result is not None:
                raise self.result
            return super().process_rhs(*args)

    return AmongEquals


class _Plain(Decimal):
    """A `Decimal` whose copies and pickles are plain ones."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Decimal, (str(self),)

    def __copy__(self, *_memo: Any) -> Any:
        return Decimal(self)

    __deepcopy__ = __copy__

    def __conform__(self, protocol: Any) -> str:
        # SQLite knows how to store this very class alone.
        return str(self)


class CountedAmount(_Plain):
    """The new value, as `Counted`: a subclass of ``Decimal``, and equal to the plain number.

    Attributes:
        value: the same, as a plain ``Decimal``.
        replayed: whether a call with the same token was counted before.
    """

    replayed: bool = False

    @property
    def value(self) -> Decimal:
        """The new value."""
        return Decimal(self)


@dataclass(frozen=True, slots=True)
class AmountReading:
    """A value and its parts, as `Reading`."""

    value: Decimal
    total: Decimal
    pending: Decimal
    as_of: datetime
    consistency: str


class _CountingAmounts(Counting):
    """Counts amounts where others count integers."""

    @alters_data
    def increment(  # type: ignore[override]
        self,
        by: Amount = 1,
        *,
        floor: Amount | None = None,
        ceiling: Amount | None = None,
        **options: Any,
    ) -> CountedAmount | Unknown:
        """Add ``by`` to the row; see `CounterValue.increment`. A ``by`` of 3 is 3.00.

        Raises:
            InvalidDelta: it is a float, or has more decimal places than the field: nothing is
                rounded.
        """
        return self._change(self._field.units(by), floor, ceiling, options)

    @alters_data
    def decrement(  # type: ignore[override]
        self,
        by: Amount = 1,
        *,
        floor: Amount | None = None,
        ceiling: Amount | None = None,
        **options: Any,
    ) -> CountedAmount | Unknown:
        """Subtract ``by`` from the row; see `increment`."""
        return self._change(-self._field.units(by), floor, ceiling, options)

    def read(self, **options: Any) -> AmountReading:  # type: ignore[override]
        """The present value and its parts, in amounts; see `CounterValue.read`."""
        reading = super().read(**options)
        numbers = (reading.value, reading.total, reading.pending)
        value, total, pending = map(self._field.present, numbers)
        return AmountReading(value, total, pending, reading.as_of, reading.consistency)

    @alters_data
    def adjust(
        self,
        *,
        to: Amount | None = None,
        by: Amount | None = None,
        expected: Amount | None = None,
        **asked: Any,
    ) -> CounterAdjustment:
        """Set the row right; see `CounterValue.adjust`. The row of the adjustment is in units."""
        asked |= self._in_units(to=to, by=by, expected=expected)
        with _in_amounts(self._field):
            return super().adjust(**asked)

    @alters_data
    def maximum(  # type: ignore[override]
        self, number: Amount, *, using: str | None = None
    ) -> CountedAmount | Unknown:
        """Set the row to ``number`` if its value is smaller; see `CounterValue.maximum`."""
        with _in_amounts(self._field):
            return self._counted(super().maximum(self._field.units(number), using=using))

    def _change(
        self, units: int, floor: Any, ceiling: Any, options: dict[str, Any]
    ) -> CountedAmount | Unknown:
        options |= self._in_units(floor=floor, ceiling=ceiling)
        with _in_amounts(self._field):
            return self._counted(super().increment(units, **options))

    def _counted(self, result: Result) -> CountedAmount | Unknown:
        if isinstance(result, Unknown):
            return result
        counted = CountedAmount(self._field.present(result))
        counted.replayed = result.replayed
        return counted

    def _in_units(self, **amounts: Amount | None) -> dict[str, Any]:
        """Return the units of the amounts that aren't None."""
        units = self._field.units
        return {name: units(amount) for name, amount in amounts.items() if amount is not None}

    if TYPE_CHECKING:

        def value(self, **options: Any) -> Decimal: ...  # type: ignore[override]
        async def avalue(self, **options: Any) -> Decimal: ...  # type: ignore[override]
        async def aread(self, **options: Any) -> AmountReading: ...  # type: ignore[override]
        async def aincrement(  # type: ignore[override]
            self, by: Amount = 1, **options: Any
        ) -> CountedAmount | Unknown: ...
        async def adecrement(  # type: ignore[override]
            self, by: Amount = 1, **options: Any
        ) -> CountedAmount | Unknown: ...
        async def amaximum(  # type: ignore[override]
            self, number: Amount, *, using: str | None = None
        ) -> CountedAmount | Unknown: ...
        async def aadjust(self, **asked: Any) -> CounterAdjustment: ...


class CounterAmount(SavedRaw, _CountingAmounts, _Plain):
    """What ``account.balance`` is: the `Decimal` that was loaded, which can also count.

    As `CounterValue`, with amounts where that has integers.
    """

    def __new__(cls, units: int, field: CounterField, instance: models.Model) -> Self:
        amount = super().__new__(cls, field.present(units))
        amount._field = field
        amount._instance = instance
        return amount


class AmountNotLoaded(_CountingAmounts, NotLoaded):
    """What ``account.balance`` is in async code where it was deferred; see `NotLoaded`."""


class AmountOf(_CountingAmounts, CounterOf):
    """The amount of the record with a primary key, which is not loaded; see `CounterOf`."""


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
        return name, path, args, {**kwargs, **self._amounts}

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        if hasattr(value, "as_sql") and not self.is_same(value):
            raise FieldError(f"{value} isn't a counter with {self.places} decimal places.")
        return super().get_db_prep_save(value, connection)

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        own = [message_of("E038", text, self) for text in _problems(self)]
        return [*own, *super().check(**kwargs)]

    def units(self, amount: Any) -> int:
        return units_of(amount, self.places)

    def present(self, number: int) -> Decimal:
        return amount_of(number, self.places)

    def present_error(self, error: Any) -> None:
        if self._is_of(getattr(error, "key", getattr(error, "field", ""))):
            for name in _AMOUNTS:
                number = getattr(error, name, None)
                if isinstance(number, int):
                    setattr(error, name, self.present(number))
        if hasattr(error, "shortfalls"):
            error.shortfalls = tuple(
                one._make([one.key, *map(self.present, one[1:])]) if self._is_of(one.key) else one
                for one in error.shortfalls
            )

    def _is_of(self, key: object) -> bool:
        """Whether a key that an error names is a counter of this field."""
        return str(key).partition(":")[0] == self.table.label

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
            self.present(declared if isinstance(declared, int) else end)
            for declared, end in zip(self.bounds, INT8, strict=True)
        )
        ends = [MinValueValidator(floor), MaxValueValidator(ceiling)]
        return [*ends, *self._validators]

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        with _in_amounts(self):
            value = super().pre_save(model_instance, add)
        # An inserted amount becomes units again.
        return self.present(value) if isinstance(value, int) else value

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


def _problems(field: DecimalCounterField) -> Iterator[str]:
    """Yield E038: why a field can't have its decimal places."""
    if not field.has_places:
        yield f"The places {field.places!r} are no integer from 1 to {MOST_PLACES}."
    if field.measure and field.measure.condition:
        yield f"places can't be used, because {field.measure.condition.reason}. Remove one."
    if field.measure and field.measure.guard:
        yield "a ceiling of periods cannot be with places: it is for integers."
