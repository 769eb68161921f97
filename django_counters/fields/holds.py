"""The holds of the counter of a record."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import models

from django_counters.projections.event import Who
from django_counters.read.stock import Stock, stock_of
from django_counters.tokens import Token
from django_counters.write import holds
from django_counters.write.holds import Hold


class CountingHolds:
    """The holds of the counter of one instance."""

    _field: Any  # a CounterField; said so, its descriptor would hide it from type checkers
    _instance: models.Model

    def hold(
        self,
        quantity: int = 1,
        *,
        minutes: float = 15,
        token: str | UUID | Token | None = None,
        note: str = "",
        who: Who = None,
        using: str | None = None,
    ) -> Hold:
        """Take ``quantity`` from the row, and hold it; see `CounterManager.hold`.

        ``hold = product.stock.hold(2, token=cart.token)``. The rest is set on the instance.

        Raises:
            UnsavedInstance, RecordMissing: there is no row.
            InsufficientCount, HoldLimitExceeded, UnsupportedHold, TokenConflict, InvalidDelta,
            InvalidActor: as there.
        """
        field, instance = self._field, self._instance
        made = holds.hold(field.ref(instance, using), quantity, minutes, token, note, who)
        if made.available is not None:
            instance.__dict__[field.attname] = made.available
        return made

    def holds(self, *, limit: int = 100, using: str | None = None) -> list[Hold]:
        """Its holds that have not ended, the first to expire first."""
        return holds.held(self._field.ref(self._instance, using), limit)

    def stocktake(self, *, using: str | None = None) -> Stock:
        """Its available, held and sold quantity; see `CounterManager.stocktake`.

        Raises:
            UnsavedInstance, RecordMissing: there is no row.
            UnsupportedHold: as there.
        """
        return stock_of(self._field.ref(self._instance, using))

    async def ahold(
        self,
        quantity: int = 1,
        *,
        minutes: float = 15,
        token: str | UUID | Token | None = None,
        note: str = "",
        who: Who = None,
        using: str | None = None,
    ) -> Hold:
        """`hold` for async code."""
        return await sync_to_async(self.hold)(
            quantity, minutes=minutes, token=token, note=note, who=who, using=using
        )

    async def aholds(self, *, limit: int = 100, using: str | None = None) -> list[Hold]:
        """`holds` for async code."""
        return await sync_to_async(self.holds)(limit=limit, using=using)

    async def astocktake(self, *, using: str | None = None) -> Stock:
        """`stocktake` for async code."""
        return await sync_to_async(self.stocktake)(using=using)

    # Templates do not call what changes data.
    hold.alters_data = True  # type: ignore[attr-defined]
    ahold.alters_data = True  # type: ignore[attr-defined]
