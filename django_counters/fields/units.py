"""Units: the integers that decimal amounts are in the database, and what queries make of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import (
    ROUND_05UP,
    ROUND_CEILING,
    ROUND_FLOOR,
    Context,
    Decimal,
    Inexact,
    InvalidOperation,
)
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core import checks
from django.core.exceptions import (
    EmptyResultSet,
    FieldError,
    FullResultSet,
    ValidationError,
)
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Variance
from django.db.models.expressions import Col, Combinable, register_combinable_fields
from django.db.models.lookups import IExact, PatternLookup, Regex

from django_counters.exceptions import CounterError, InvalidDelta
from django_counters.options import is_integer
from django_counters.tables.total import PlainColumn
from django_counters.types import INT8

if TYPE_CHECKING:
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
def in_amounts(fields: Iterable[Any]) -> Iterator[None]:
    """Let errors that are about decimal fields tell amounts, not units."""
    try:
        yield
    except CounterError as error:
        places = {field.table.label: field.places for field in fields if field.places}
        _tell(error, places)
        raise


def _tell(error: Any, places: dict[str, int]) -> None:
    own = _places_of(getattr(error, "key", getattr(error, "field", "")), places)
    if own:
        for name in _AMOUNTS:
            if isinstance(getattr(error, name, None), int):
                setattr(error, name, amount_of(getattr(error, name), own))
    if hasattr(error, "shortfalls"):
        error.shortfalls = tuple(_shortfall(one, places) for one in error.shortfalls)


def _shortfall(one: Any, places: dict[str, int]) -> Any:
    own = _places_of(one.key, places)
    return one._make([one.key, *(amount_of(part, own) for part in one[1:])]) if own else one


def _places_of(name: object, places: dict[str, int]) -> int | None:
    return places.get(str(name).partition(":")[0])


class Scaled:
    """Converts units from the database to amounts, and amounts to units."""

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
        path = path.replace("django_counters.fields.units", "django_counters.fields")
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
