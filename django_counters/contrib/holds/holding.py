"""Holds quantities of counters until they are sold or given back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django_counters import clock, errors
from django_counters.adjustments import adjustment
from django_counters.adjustments.models import CASE_LENGTH, CounterAdjustment
from django_counters.conf import EXACT, irreversible
from django_counters.contrib.holds.errors import (
    HoldEnded,
    HoldExpired,
    HoldLimitExceeded,
    HoldMissing,
    UnsupportedHold,
)
from django_counters.contrib.holds.models import NAME_LENGTH, CounterHold
from django_counters.contrib.holds.options import LIMITS, MOST_MINUTES, can_hold
from django_counters.contrib.holds.sql import HoldRequest, HoldRow, SqlHolds, SqlStock
from django_counters.event import Who, actor_of
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.strategies.base import Strategy
from django_counters.tables.schema import COUNTERS
from django_counters.tokens import Token, check_token, mint
from django_counters.twins import alters_data, twin
from django_counters.types import UNBOUNDED, Batch, Bounds, Delta, check_delta
from django_counters.write.changes import Change, Ref, applied, is_spread, tell
from django_counters.write.pipeline import owed, settle
from django_counters.write.records import declared_options, is_whole, ref_of, ref_to

if TYPE_CHECKING:
    from django_counters.fields.values import Counting

State = CounterHold.State
#: The most expired holds that a call gives back before it takes a quantity.
AT_ONCE = 1000
_NOT_BELOW_ZERO = Bounds(0)


@dataclass(frozen=True, slots=True)
class Hold:
    """A quantity of one counter that is held for a buyer until a moment.

    Keep its ``token`` in a session, and `find` it again.

    Attributes:
        token: its name.
        key: the key of a named counter, or the primary key of the record.
        field: empty, or the model and the name of the counter: ``shop.Product.stock``.
        quantity: the quantity that was taken.
        expires_at: its end, by the database's clock.
        state: ``"held"``, ``"committed"``, ``"released"`` or ``"expired"``, as of the call.
        sold: the quantity that was committed.
        note: the caller's text.
        actor: its holder; empty if the call named none.
        available: the value that was left; None if the token was in use.
        replayed: whether an earlier call with the same token has made or ended it.
        using: the database.
    """

    token: str
    key: str
    field: str
    quantity: int
    expires_at: datetime
    state: str
    sold: int
    note: str
    actor: str
    available: int | None
    replayed: bool
    using: str

    @alters_data
    def commit(self, quantity: int | None = None) -> Hold:
        """Sell it, or ``quantity`` of it: the rest goes back in the same transaction.

        It joins the caller's transaction. A sale of all is one UPDATE of the row of the hold, and
        touches no counter. A repeated call changes nothing and sets ``replayed``.

        Raises:
            HoldExpired: it has expired, even if nothing was given back yet.
            HoldEnded: it was released, or committed with another quantity.
            InvalidDelta: it holds less.
            HoldMissing, RetryTransaction.
        """
        return _commit(self.token, quantity, self.using)

    @alters_data
    def release(self) -> bool:
        """Give it back; return False if it was given back before.

        Raises:
            HoldEnded: it was committed.
            HoldMissing, RetryTransaction.
        """
        return _release(self.token, self.using)

    def extend(self, *, minutes: float) -> Hold:
        """Hold it for at least so many minutes from now; never for less than before.

        A hold lasts at most ``hold_minutes``, extensions included: read ``expires_at``.

        Raises:
            HoldExpired, HoldEnded: it isn't held any more.
            HoldLimitExceeded: it would exceed a limit of held quantities.
            HoldMissing, RetryTransaction.
        """
        return _extend(self.token, minutes, self.using)

    acommit = twin(commit)
    arelease = twin(release)
    aextend = twin(extend)


@dataclass(frozen=True, slots=True)
class Stock:
    """A counter and its holds at one moment.

    Attributes:
        available: the value of the counter.
        held: the quantity of holds that have not ended, even if they have expired.
        sold: the quantity of committed holds that are kept: 30 days after their expiry they are
            deleted.
    """

    available: int
    held: int
    sold: int

    @property
    def total(self) -> int:
        """Return the sum of all three. Holding, selling and giving back leave it as it is."""
        return self.available + self.held + self.sold


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """The quantity of a counter that may be held at once, and for how many minutes.

    Attributes:
        per_actor, in_total: a quantity; None for any.
        minutes: from when the hold was made, extensions included.
    """

    per_actor: int | None
    in_total: int | None
    minutes: int


def limits_of(ref: Ref) -> HoldLimits:
    """Return the limits in the options of a counter's namespace or field."""
    options = declared_options(ref)
    return HoldLimits(*(options.get(limit.name, limit.default) for limit in LIMITS))


def store(using: str) -> SqlHolds:
    """Return the holds of a database."""
    return registry.kept(SqlHolds, using)


@alters_data
def hold(
    counter: str | Counting | Ref,
    quantity: int = 1,
    *,
    minutes: float = 15,
    token: str | UUID | Token | None = None,
    note: str = "",
    who: Who = None,
    using: str | None = None,
) -> Hold:
    """Take ``quantity`` from a counter and hold it for so many minutes.

    The counter's value is the available quantity. The hold's row and the counter's change are one
    step: a crash leaves both or neither. Expired holds are given back first, so no call is refused
    while enough is available. The counter stays at its floor or above, and at zero or above if it
    declares none. Signals, periods and transactions work as for a decrement. If you pass a field's
    value, its instance gets the new value.

    With a ``token`` (a cart) the same call returns the same hold for 30 days; read its ``state``.
    If several calls use one token at once, one takes the quantity and the others wait for it.

    ``who`` is the holder: a user, or a text of up to 64 characters. With the options
    ``held_per_actor`` and ``held_in_total``, no interleaving of calls holds more.

    Args:
        counter: a key, or the value of a counter field: ``product.stock``.

    Raises:
        InsufficientCount: less is available. Nothing was changed.
        HoldLimitExceeded: the actor, or all actors together, would hold more than the limit.
        InvalidActor: ``who`` isn't an actor, or is missing though ``held_per_actor`` is set.
        UnsupportedHold: pending increments of the counter are elsewhere (``cached``, ``ledger``,
            ``sharded``, ``slotted``), it counts once for each actor, or it has a quota.
        TokenConflict: the token holds another counter or quantity, or is another actor's.
        InvalidDelta: the quantity isn't a positive integer, or the minutes aren't between 0 and
            ``hold_minutes``.
        ValueError: the note has more than 255 characters, or one that controls its display.
        InvalidKey, InvalidToken, UnsavedInstance, RecordMissing, RetryTransaction,
        CounterUnavailable, ReadOnlyDatabase, OutcomeUnknown: as for an increment.
    """
    ref = ref_to(counter, using)
    limits = limits_of(ref)
    made = _hold(ref, _request(ref, limits, quantity, minutes, token, note, who), limits)
    if made.available is not None and not isinstance(counter, str | Ref):
        counter.show(made.available)
    return made


ahold = twin(hold)


def _hold(ref: Ref, request: HoldRequest, limits: HoldLimits) -> Hold:
    if not ref.owner:
        settle([ref.text], ref.using)
    delta = _delta(ref, -request.quantity)
    made = _at_once(ref, request, delta, limits)
    if made is not None:
        return made
    while True:
        # Expired holds are free: no call is refused while they would be enough.
        is_more = expire_of(ref) == AT_ONCE
        try:
            return _step_by_step(ref, request, delta, limits)
        except errors.InsufficientCount:
            if not is_more:
                raise


def _step_by_step(ref: Ref, request: HoldRequest, delta: Delta, limits: HoldLimits) -> Hold:
    holds = store(ref.using)
    with holds.all_or_nothing():
        # The row comes first: the second caller with a token takes nothing.
        until = holds.claim(request)
        if until is not None:
            value = applied(_strategy(ref), Batch((delta,)), ref.using, ref.owner)[ref.key]
            # Other calls for this counter wait for its total, so none is missed here.
            _check_limits(ref, request, limits)
            return _made(ref, request, int(value), until)
    # An earlier call has made it with the same token.
    row = holds.find(request.token)
    if row is None:
        raise errors.RetryTransaction(what="the hold")
    if (*row[1:4], row.actor) != (*request[1:4], request.actor):
        raise errors.TokenConflict(token=request.token)
    return _hold_of(row, ref.using, replayed=True)


def _check_limits(ref: Ref, request: HoldRequest, limits: HoldLimits) -> None:
    """Refuse more than may be held at once; the row of ``request`` is already there."""
    if limits.per_actor is None and limits.in_total is None:
        return
    quantities = store(ref.using).quantities(ref.owner, ref.text, request.actor)
    for held, limit in zip(quantities, (limits.per_actor, limits.in_total), strict=True):
        if limit is not None and held > limit:
            before = held - request.quantity
            raise HoldLimitExceeded(
                key=ref.label, requested=request.quantity, held=before, limit=limit
            )


def check_holds(ref: Ref) -> None:
    """Refuse a counter that can't be held."""
    reason = ""
    if not can_hold(ref.recipe.can):
        reason = f"{ref.strategy} counters can't promise a quantity"
    elif ref.intake is not None:
        reason = ref.intake.reason
    elif is_spread(ref):
        reason = "other databases also count it"
    elif not is_whole(ref):
        reason = "it has decimal places, and a hold is a whole quantity"
    elif ref.measure is not None and (why := irreversible(declared_options(ref))):
        reason = f"{why}. Hold another counter"
    if reason:
        raise UnsupportedHold(key=ref.label, reason=reason)


def _request(
    ref: Ref,
    limits: HoldLimits,
    quantity: object,
    minutes: object,
    token: object,
    note: str,
    who: object,
) -> HoldRequest:
    check_holds(ref)
    if max(len(ref.owner), len(ref.text)) > NAME_LENGTH:
        reason = f"a counter that is held has a name of at most {NAME_LENGTH} characters"
        raise errors.InvalidKey(key=ref.label, reason=reason)
    if len(note) > NAME_LENGTH:
        raise ValueError(f"A note has at most {NAME_LENGTH} characters, not {len(note)}.")
    if character := adjustment.steering(note):
        raise ValueError(f"A note can't have {character!a}, because it controls the display.")
    actor = "" if who is None else actor_of(who)
    if limits.per_actor is not None and not actor:
        raise errors.InvalidActor(
            who=who, reason=f"{ref.label} limits what each actor holds. Pass who"
        )
    name = name_of(mint(clock.utc()) if token is None else token)
    seconds = _seconds(minutes, limits.minutes)
    return HoldRequest(name, ref.owner, ref.text, _positive(quantity), seconds, note, actor)


def name_of(token: object) -> str:
    """Return the token in the row of a hold: the text, or the digest of one with a scope.

    Raises:
        InvalidToken: it isn't a token.
    """
    checked = check_token(token)
    if "\0" in checked.text and not checked.scope:
        raise errors.InvalidToken(token=checked.text, reason="it contains a NUL")
    return checked.digest.hex() if checked.scope else checked.text


def _positive(quantity: object) -> int:
    number = check_delta(quantity)
    if number < 0:
        raise errors.InvalidDelta(delta=quantity, reason="a hold needs a quantity above zero")
    return number


def _seconds(minutes: object, most: int = MOST_MINUTES) -> float:
    is_number = isinstance(minutes, int | float) and not isinstance(minutes, bool)
    if not is_number or not 0 < minutes <= most:  # type: ignore[operator]
        reason = f"a hold lasts for more than 0 and at most {most} minutes"
        raise errors.InvalidDelta(delta=minutes, reason=reason)
    return float(minutes) * 60  # type: ignore[arg-type]


def _delta(ref: Ref, by: int) -> Delta:
    """Return the change of a hold. The default floor is zero; giving back has no bounds."""
    if by > 0:
        return Change(ref, by).apart._replace(bounds=UNBOUNDED, guard=None)
    bounds = UNBOUNDED if ref.bounds.floor is not None else _NOT_BELOW_ZERO
    return Change(ref, by, bounds).delta


def _strategy(ref: Ref) -> Strategy:
    return registry.strategy(ref.recipe, ref.table, ref.using)


def _at_once(ref: Ref, request: HoldRequest, delta: Delta, limits: HoldLimits) -> Hold | None:
    """Hold it in one statement; return None if the database has none, or if it refuses."""
    holds = store(ref.using)
    is_limited = limits.per_actor is not None or limits.in_total is not None
    if ref.owner or not holds.at_once or delta.effects or is_limited:
        return None
    low, high = ref.table.capacity
    least = (delta.bounds.floor or 0) + request.quantity
    if not low <= least <= high:
        return None
    taken = holds.take(request, least)
    if taken is None:
        return None
    if batch_applied.receivers:
        tell(_strategy(ref), Batch((delta,)), {ref.key: taken[0]}, ref.using)
    return _made(ref, request, *taken)


def _made(ref: Ref, request: HoldRequest, value: int, until: datetime) -> Hold:
    row = HoldRow(*request[:4], 0, State.HELD, request.note, request.actor, 0, until, False)
    return _hold_of(row, ref.using, available=value)


def _hold_of(
    row: HoldRow, using: str, *, available: int | None = None, replayed: bool = False
) -> Hold:
    state = State.EXPIRED if row.over and row.state == State.HELD else State(row.state)
    return Hold(
        token=row.token,
        key=row.key,
        field=row.label,
        quantity=row.quantity,
        expires_at=row.expires_at,
        state=state.name.lower(),
        sold=row.sold,
        note=row.note,
        actor=row.actor,
        available=available,
        replayed=replayed,
        using=using,
    )


def find(token: str | UUID | Token, *, using: str | None = None) -> Hold:
    """Return the present state of the hold with a token, of a key or a field.

    Raises:
        HoldMissing: there is none, or it ended more than 30 days ago.
    """
    alias, name = COUNTERS.writing(using), name_of(token)
    return _hold_of(_row(name, alias), alias)


afind = twin(find)


def of(counter: str | Counting | Ref, *, limit: int = 100, using: str | None = None) -> list[Hold]:
    """Return the holds of a counter that have not ended, the first to expire first."""
    ref = ref_to(counter, using)
    return [_hold_of(row, ref.using) for row in store(ref.using).held(ref.owner, ref.text, limit)]


aof = twin(of)


def stocktake(counter: str | Counting | Ref, *, using: str | None = None) -> Stock:
    """Return the available, held and sold quantity of a counter at one moment.

    Compare ``total`` with your initial stock. It reads all rows of holds that are kept, so use it
    for audits, not for pages.

    Raises:
        UnsupportedHold: the counter can't be held.
        InvalidKey, UnsavedInstance, RecordMissing, CounterUnavailable.
    """
    ref = ref_to(counter, using)
    check_holds(ref)
    value, held, sold = SqlStock(ref.table, ref.using).stock(ref.owner, ref.text, ref.key)
    if value is None and not ref.table.inserts:
        raise errors.RecordMissing(key=ref.label)
    return Stock((value or 0) + owed(ref, ref.using), held, sold)


astocktake = twin(stocktake)


@alters_data
def release(
    token: str | UUID | Token,
    *,
    reason: str,
    actor: object,
    request_id: str = "",
    using: str | None = None,
) -> CounterAdjustment:
    """Give back a hold and record who did it and why, as ``adjust`` does.

    Use it for staff: `Hold.release` records nothing. The ``case`` of the adjustment names the hold:
    ``hold 'basket-17'``. It isn't a decision about the value, so it needs no second person, and
    no ceiling or quota applies.

    Raises:
        HoldEnded: it was sold or given back before.
        HoldMissing, InvalidAdjustment, RecordMissing, RetryTransaction.
    """
    hold = find(token, using=using)
    ref = ref_of(hold.field, hold.key, hold.using)
    measure = ref.measure and ref.measure._replace(guard=None)
    ref = ref._replace(bounds=UNBOUNDED, approve_above=None, measure=measure)
    # As code spells it: a token may have characters that a case may not.
    case = f"hold {hold.token!a}"[:CASE_LENGTH]
    order = adjustment.order_of(
        by=hold.quantity, case=case, reason=reason, actor=actor, request_id=request_id
    )
    adjustment.settle_async([ref], hold.using)
    with adjustment.adjusting(ref, hold.using) as audit:
        if store(hold.using).release(hold.token) is None:
            state = find(hold.token, using=hold.using).state
            raise HoldEnded(token=hold.token, key=ref.label, quantity=hold.quantity, state=state)
        return adjustment.correct(ref, order, hold.using, audit)


arelease = twin(release)


def _row(name: str, using: str) -> HoldRow:
    row = store(using).find(name)
    if row is None:
        raise HoldMissing(token=name)
    return row


def _commit(name: str, quantity: object, using: str) -> Hold:
    wanted = None if quantity is None else _positive(quantity)
    holds = store(using)
    if wanted is None:
        done = holds.commit(name, None) is not None
    else:
        with holds.all_or_nothing():
            ended = holds.commit(name, wanted)
            if ended is not None and ended.quantity > wanted:
                give_back(ended.label, ended.key, ended.quantity - wanted, using)
        done = ended is not None
    row = _row(name, using)
    if not done:
        _refuse_commit(row, wanted)
    return _hold_of(row, using, replayed=not done)


def _refuse_commit(row: HoldRow, wanted: int | None) -> None:
    """Raise the reason for a refused commit; return if the same quantity was sold before."""
    if row.state == State.COMMITTED and row.sold == (wanted or row.quantity):
        return
    if row.runs and wanted is not None and wanted > row.quantity:
        reason = f"the hold has {row.quantity} of {_label(row)}"
        raise errors.InvalidDelta(delta=wanted, reason=reason)
    raise _ended(row)


def _ended(row: HoldRow) -> Exception:
    """Return why a hold can't be changed any more."""
    if row.runs:
        # The statement that should have changed it didn't see it running.
        return errors.RetryTransaction(what="the hold")
    kind = HoldExpired if row.state in (State.HELD, State.EXPIRED) else HoldEnded
    state = State(row.state).name.lower()
    return kind(token=row.token, key=_label(row), quantity=row.quantity, state=state)


def _label(row: HoldRow) -> str:
    return f"{row.label}:{row.key}" if row.label else row.key


def _release(name: str, using: str) -> bool:
    holds = store(using)
    with holds.all_or_nothing():
        ended = holds.release(name)
        if ended is not None:
            give_back(ended.label, ended.key, ended.quantity, using)
            return True
    row = _row(name, using)
    if row.state not in (State.RELEASED, State.EXPIRED):
        raise _ended(row)
    return False


def _extend(name: str, minutes: object, using: str) -> Hold:
    row = _row(name, using)
    try:
        ref = ref_of(row.label, row.key, using)
        limits = limits_of(ref)
    except errors.RecordMissing:
        ref, limits = None, HoldLimits(None, None, MOST_MINUTES)
    # A hold never ends later than if it had been made with the most minutes.
    seconds = min(_seconds(minutes), max(limits.minutes * 60 - row.age, 0))
    holds = store(using)
    if ref is None or (limits.per_actor is None and limits.in_total is None):
        until = holds.extend(name, seconds)
    else:
        corrections = registry.corrections(ref.table, using)
        with corrections.correcting("the hold"):
            until = holds.extend(name, seconds)
            if until is not None:
                # Before this commits, another call may see it expired and hold its quantity.
                if holds.waits_for_others:
                    corrections.hold([ref.key])
                request = HoldRequest(*row[:4], seconds, actor=row.actor)
                _check_limits(ref, request, limits)
    row = _row(name, using)
    if until is None:
        raise _ended(row)
    return _hold_of(row._replace(expires_at=until), using)


def give_back(label: str, key: str, quantity: int, using: str) -> None:
    """Add a held quantity to its counter, in the transaction that ends the hold.

    A deleted record gets nothing back.
    """
    try:
        _credit(ref_of(label, key, using), quantity)
    except errors.RecordMissing:
        return


def _credit(ref: Ref, quantity: int) -> None:
    # The quantity was taken from the total, even if the strategy was changed since.
    recipe = ref.recipe if can_hold(ref.recipe.can) else EXACT
    strategy = registry.strategy(recipe, ref.table, ref.using)
    applied(strategy, Batch((_delta(ref, quantity),)), ref.using, ref.owner)


def expire_of(ref: Ref, limit: int = AT_ONCE) -> int:
    """Give back expired holds of a counter; return their number.

    A concurrent call waits for the first one, and then gives back the rest.

    Raises:
        RecordMissing: the record is gone.
    """
    holds = store(ref.using)
    several = holds.waits_for_others
    if several and not holds.overdue(ref.owner, ref.text):
        return 0
    corrections = registry.corrections(ref.table, ref.using)
    with corrections.correcting("the hold"):
        # The total before the rows, so that two calls never wait for each other.
        if several and ref.key not in corrections.hold([ref.key]).found:
            raise errors.RecordMissing(key=ref.label)
        quantities = holds.expire(ref.owner, ref.text, limit)
        if quantities:
            _credit(ref, sum(quantities))
    return len(quantities)
