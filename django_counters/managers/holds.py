"""The public API: counters by key of which a quantity can be held."""

from __future__ import annotations

from uuid import UUID

from asgiref.sync import sync_to_async

from django_counters.adjustments.models import CounterAdjustment
from django_counters.adjustments.releasing import release_hold
from django_counters.managers.actors import ActorManager
from django_counters.managers.rows import Row
from django_counters.projections.event import Who
from django_counters.read.stock import Stock, stock_of
from django_counters.tokens import Token
from django_counters.write import holds
from django_counters.write.change import named
from django_counters.write.holds import Hold


class HoldManager(ActorManager[Row]):
    """Holds a quantity of a counter, until it is sold or given back."""

    def hold(
        self,
        key: str,
        quantity: int = 1,
        *,
        minutes: float = 15,
        token: str | UUID | Token | None = None,
        note: str = "",
        who: Who = None,
        using: str | None = None,
    ) -> Hold:
        """Take ``quantity`` from a counter, and hold it for so many minutes.

        The value is what is available. The row of the hold and the change of the counter are one
        step: a crash leaves both or neither. No caller is refused while there is enough: holds of
        others that have expired are given back before. The counter stays at its floor or above, at
        zero where none is declared. Signals, periods and transactions are those of a decrement.

        With a ``token`` (a cart) the same call answers with the same hold, for 30 days; ``state``
        says what became of it. Where several use one token at once, one takes, the others wait.

        ``who`` holds it: a user, or a text of up to 64 characters. With ``held_per_actor`` or
        ``held_in_total`` in the options of the namespace, no interleaving of calls holds more.

        Raises:
            InsufficientCount: there is not as much; nothing was changed.
            HoldLimitExceeded: the actor, or all of them together, would hold more than they may.
            InvalidActor: ``who`` is no actor, or missing although the namespace limits each.
            UnsupportedHold: increments of the counter wait elsewhere (``cached``, ``ledger``,
                ``sharded``, ``slotted``), it counts once for each actor, or it has a quota.
            TokenConflict: the token holds another counter or quantity, or for another actor.
            InvalidDelta: the quantity is no positive integer, or the minutes are not between 0 and
                ``hold_minutes``.
            ValueError: the note has more than 255 characters, or one that steers how it is shown.
            InvalidKey, InvalidToken, RetryTransaction, CounterUnavailable, ReadOnlyDatabase,
            OutcomeUnknown: as for `increment`.
        """
        return holds.hold(named(key, using or self._db), quantity, minutes, token, note, who)

    def find_hold(self, token: str | UUID | Token, *, using: str | None = None) -> Hold:
        """The hold with a token, as it is now; also of a counter field.

        Raises:
            HoldMissing: there is none, or it ended more than 30 days ago.
        """
        return holds.find(token, using or self._db)

    def holds(self, key: str, *, limit: int = 100, using: str | None = None) -> list[Hold]:
        """The holds of a counter that have not ended, the first to expire first."""
        return holds.held(named(key, using or self._db), limit)

    def stocktake(self, key: str, *, using: str | None = None) -> Stock:
        """The available, held and sold quantity of a counter, all of one moment.

        Compare ``total`` with the stock that you began with. It reads all rows of holds that are
        kept: it is for audits, not for pages.

        Raises:
            UnsupportedHold: nothing can be held of the counter.
            InvalidKey, CounterUnavailable.
        """
        return stock_of(named(key, using or self._db))

    def release_hold(
        self,
        token: str | UUID | Token,
        *,
        reason: str,
        actor: object,
        request_id: str = "",
        using: str | None = None,
    ) -> CounterAdjustment:
        """Give back a hold, and keep who did it and why, as `adjust` does.

        The ``case`` of the adjustment names the hold: ``hold 'basket-17'``. For staff:
        ``hold.release()`` writes nothing down. The page of a counter in the admin has a form for
        it, and so has that of a record with `CounterFieldsAdmin`.

        Raises:
            HoldEnded: it was sold or given back before.
            HoldMissing, InvalidAdjustment, RecordMissing, RetryTransaction.
        """
        return release_hold(
            token, using or self._db, reason=reason, actor=actor, request_id=request_id
        )

    async def ahold(
        self,
        key: str,
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
            key, quantity, minutes=minutes, token=token, note=note, who=who, using=using
        )

    async def afind_hold(self, token: str | UUID | Token, *, using: str | None = None) -> Hold:
        """`find_hold` for async code."""
        return await sync_to_async(self.find_hold)(token, using=using)

    async def aholds(self, key: str, *, limit: int = 100, using: str | None = None) -> list[Hold]:
        """`holds` for async code."""
        return await sync_to_async(self.holds)(key, limit=limit, using=using)

    async def astocktake(self, key: str, *, using: str | None = None) -> Stock:
        """`stocktake` for async code."""
        return await sync_to_async(self.stocktake)(key, using=using)

    async def arelease_hold(
        self,
        token: str | UUID | Token,
        *,
        reason: str,
        actor: object,
        request_id: str = "",
        using: str | None = None,
    ) -> CounterAdjustment:
        """`release_hold` for async code."""
        return await sync_to_async(self.release_hold)(
            token, reason=reason, actor=actor, request_id=request_id, using=using
        )

    # Templates do not call what changes data.
    hold.alters_data = True  # type: ignore[attr-defined]
    ahold.alters_data = True  # type: ignore[attr-defined]
    release_hold.alters_data = True  # type: ignore[attr-defined]
    arelease_hold.alters_data = True  # type: ignore[attr-defined]
