"""Units: the integers that decimal amounts are in the database, and what queries make of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache
from typing import TYPE_CHECKING, Any

from django.core.exceptions import FieldError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Variance
from django.db.models.expressions import Combinable, register_combinable_fields

from django_counters.exceptions import CounterError, InvalidDelta
from django_counters.types import INT8

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
else:
    _Field = models.Field

MOST_PLACES = 18
# Of 64 bits. More digits, as of 1.000, are zeros.
_EXACT = Context(prec=40, traps=[Inexact, InvalidOperation])
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
        # A square of units has twice the places.
        places = self.places * (2 if isinstance(expression, Variance) else 1)
        if isinstance(value, int):
            return amount_of(value, places)
        sign, digits, exponent = Decimal(str(value)).as_tuple()
        return Decimal((sign, digits, int(exponent) - places))

    def get_prep_value(self, value: Any) -> Any:
        """The units of an amount, which may be a text, as addresses have it."""
        if value is None or hasattr(value, "resolve_expression"):
            return value
        try:
            number = Decimal(value) if isinstance(value, str) else value
        except InvalidOperation:
            raise InvalidDelta(delta=value, reason="it is no number") from None
        return units_of(number, self.places)

    def is_same(self, expression: Any) -> bool:
        """Whether an expression is in the same units."""
        field = getattr(expression, "_output_field_or_none", None) or expression.output_field
        return isinstance(field, Scaled) and field.places == self.places


class Units(Scaled, _Field):
    """The type of a column of units in expressions. It mixes with no other type."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        return models.BigIntegerField().db_type(connection)

    def get_lookup(self, lookup_name: str) -> Any:
        found = super().get_lookup(lookup_name)
        return found and _among_equals(found)  # type: ignore[arg-type]


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


@cache
def _among_equals(lookup: type[models.Lookup[Any]]) -> type[models.Lookup[Any]]:
    """A lookup that compares units with the same units alone."""

    class AmongEquals(lookup):  # type: ignore[misc, valid-type]
        def get_prep_lookup(self) -> Any:
            given = self.rhs if isinstance(self.rhs, list | tuple) else [self.rhs]
            for one in given:
                if hasattr(one, "resolve_expression") and not self.lhs.output_field.is_same(one):
                    places = self.lhs.output_field.places
                    raise FieldError(f"{one} is no counter with {places} decimal places.")
            return super().get_prep_lookup()

    return AmongEquals
