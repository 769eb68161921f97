"""The value of a decimal field: a Decimal that can also count."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from django.db import models

from django_counters.adjustments.models import CounterAdjustment
from django_counters.fields.base import BaseCounterField
from django_counters.fields.units import amount_of, in_amounts, units_of
from django_counters.fields.values import CounterOf, Counting, NotLoaded, SavedRaw
from django_counters.values import Result, Unknown

Amount = Decimal | int


class _Plain(Decimal):
    """A `Decimal` whose copies and pickles are plain ones."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Decimal, (str(self),)

    def __copy__(self) -> Any:
        return Decimal(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return Decimal(self)

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
        return self._change(self._units(by), floor, ceiling, options)

    def decrement(  # type: ignore[override]
        self,
        by: Amount = 1,
        *,
        floor: Amount | None = None,
        ceiling: Amount | None = None,
        **options: Any,
    ) -> CountedAmount | Unknown:
        """Subtract ``by`` from the row; see `increment`."""
        return self._change(-self._units(by), floor, ceiling, options)

    def read(self, **options: Any) -> AmountReading:  # type: ignore[override]
        """The present value and its parts, in amounts; see `CounterValue.read`."""
        found = super().read(**options)
        numbers = (found.value, found.total, found.pending)
        value, total, pending = (amount_of(number, self._places) for number in numbers)
        return AmountReading(value, total, pending, found.as_of, found.consistency)

    def adjust(
        self,
        *,
        to: Amount | None = None,
        by: Amount | None = None,
        expected: Amount | None = None,
        **asked: Any,
    ) -> CounterAdjustment:
        """Set the row right; see `CounterValue.adjust`. The row of the adjustment is in units."""
        asked |= self._given(to=to, by=by, expected=expected)
        with self._in_amounts():
            return super().adjust(**asked)

    def maximum(  # type: ignore[override]
        self, number: Amount, *, using: str | None = None
    ) -> CountedAmount | Unknown:
        """Set the row to ``number`` if its value is smaller; see `CounterValue.maximum`."""
        with self._in_amounts():
            return self._counted(super().maximum(self._units(number), using=using))

    def _change(
        self, units: int, floor: Any, ceiling: Any, options: dict[str, Any]
    ) -> CountedAmount | Unknown:
        options |= self._given(floor=floor, ceiling=ceiling)
        with self._in_amounts():
            return self._counted(super().increment(units, **options))

    def _counted(self, result: Result) -> CountedAmount | Unknown:
        if isinstance(result, Unknown):
            return result
        counted = CountedAmount(amount_of(result, self._places))
        counted.replayed = result.replayed
        return counted

    def _given(self, **amounts: Amount | None) -> dict[str, Any]:
        """The units of those that were given."""
        return {name: self._units(one) for name, one in amounts.items() if one is not None}

    def _units(self, amount: object) -> int:
        return units_of(amount, self._places)

    def _in_amounts(self) -> AbstractContextManager[None]:
        return in_amounts([self._field])

    @property
    def _places(self) -> int:
        places: int = self._field.places
        return places

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

    def __new__(cls, units: int, field: BaseCounterField, instance: models.Model) -> Self:
        amount = super().__new__(cls, amount_of(units, field.places or 0))
        amount._field = field
        amount._instance = instance
        return amount


class AmountNotLoaded(_CountingAmounts, NotLoaded):
    """What ``account.balance`` is in async code where it was deferred; see `NotLoaded`."""


class AmountOf(_CountingAmounts, CounterOf):
    """The amount of the record with a primary key, which is not loaded; see `CounterOf`."""
