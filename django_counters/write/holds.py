"""Holds: quantities taken from a counter, until they are sold or given back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from asgiref.sync import sync_to_async

from django_counters import clock
from django_counters.conf import EXACT
from django_counters.exceptions import (
    HoldEnded,
    HoldExpired,
    HoldLimitExceeded,
    HoldMissing,
    InsufficientCount,
    InvalidActor,
    InvalidDelta,
    InvalidKey,
    InvalidToken,
    RecordMissing,
    RetryTransaction,
    TokenConflict,
    UnsupportedHold,
)
from django_counters.projections.event import actor_of
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.stores.sql.holds import Asked, Row
from django_counters.strategies.base import Strategy
from django_counters.strategies.in_place import HOLDS, MOST_MINUTES
from django_counters.tables.hold import NAME_LENGTH, CounterHold
from django_counters.tables.standing import COUNTERS
from django_counters.tokens import check_token, mint
from django_counters.types import UNBOUNDED, Batch, Bounds, Delta, check_delta, steering
from django_counters.write.change import Change, Ref, is_regional
from django_counters.write.pipeline import settle
from django_counters.write.records import column_of, ref_of
from django_counters.write.telling import applied, tell

State = CounterHold.State
#: How many expired holds a call gives back at most before it takes a quantity.
AT_ONCE = 1000
_NOT_BELOW_ZERO = Bounds(0)


@dataclass(frozen=True, slots=True)
class Hold:
    """A quantity of one counter that is held for a buyer until a moment.

    It can be kept in a session by its ``token``, and found again; see `CounterManager.find_hold`.

    Attributes:
        token: what names it.
        key: the key of a named counter, else that of the record.
        field: empty, or the model and the name of the counter: ``shop.Product.stock``.
        quantity: how much was taken.
        expires_at: when it is over; by the clock of the database.
        state: ``"held"``, ``"committed"``, ``"released"`` or ``"expired"``, as it was then.
        sold: how much was committed.
        note: a text of the caller.
        actor: who holds it; empty if nobody was named.
        available: the quantity that was left; None where the token was known.
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

    def commit(self, quantity: int | None = None) -> Hold:
        """Sell it, or ``quantity`` of it: the rest goes back in the same transaction.

        Part of the caller's transaction; one UPDATE of the row of the hold. A sale of all touches
        no counter. A repeated call changes nothing, and says so in ``replayed``.

        Raises:
            HoldExpired: it is over, also where it was not given back yet.
            HoldEnded: it was released, or committed with another quantity.
            InvalidDelta: it holds less.
            HoldMissing, RetryTransaction.
        """
        return commit(self.token, quantity, self.using)

    def release(self) -> bool:
        """Give it back; whether this call did. False where it was given back before.

        Raises:
            HoldEnded: it was committed.
            HoldMissing, RetryTransaction.
        """
        return release(self.token, self.using)

    def extend(self, *, minutes: float) -> Hold:
        """Hold it for at least so many minutes from now; never for less than before.

        It ends ``hold_minutes`` after it was made at the latest: ``expires_at`` says when.

        Raises:
            HoldExpired, HoldEnded: it is not held any more.
            HoldLimitExceeded: more than the limits admit is held with it.
            HoldMissing, RetryTransaction.
        """
        return extend(self.token, minutes, self.using)

    async def acommit(self, quantity: int | None = None) -> Hold:
        """`commit` for async code."""
        return await sync_to_async(self.commit)(quantity)

    async def arelease(self) -> bool:
        """`release` for async code."""
        return await sync_to_async(self.release)()

    async def aextend(self, *, minutes: float) -> Hold:
        """`extend` for async code."""
        return await sync_to_async(self.extend)(minutes=minutes)

    # Templates do not call what changes data.
    commit.alters_data = True  # type: ignore[attr-defined]
    release.alters_data = True  # type: ignore[attr-defined]
    acommit.alters_data = True  # type: ignore[attr-defined]
    arelease.alters_data = True  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """How much of a counter may be held at once, and for how many minutes.

    Attributes:
        per_actor, in_total: a quantity; None for any.
        minutes: from when the hold was made, extensions included.
    """

    per_actor: int | None
    in_total: int | None
    minutes: int


def limits_of(ref: Ref) -> HoldLimits:
    """The limits of a counter, by the options of its namespace or its field."""
    record = ref.table.pending.record
    column = column_of(*record) if record else None
    declared = getattr(column, "options", {}) if record else registry.policy(ref.text).options
    return HoldLimits(*(declared.get(option.name, option.default) for option in HOLDS))


def hold(
    ref: Ref,
    quantity: object,
    minutes: object,
    token: object,
    note: str,
    who: object = None,
) -> Hold:
    """Take a quantity from a counter and hold it; see `CounterManager.hold`."""
    limits = limits_of(ref)
    asked = _checked(ref, quantity, minutes, token, note, who, limits)
    if not ref.owner:
        settle([ref.text], ref.using)
    delta = _delta(ref, -asked.quantity)
    found = _at_once(ref, asked, delta, limits)
    if found is not None:
        return found
    while True:
        # Expired holds are free: no caller is refused while they would be enough.
        is_more = expire(ref) == AT_ONCE
        try:
            return _step_by_step(ref, asked, delta, limits)
        except InsufficientCount:
            if not is_more:
                raise


def _step_by_step(ref: Ref, asked: Asked, delta: Delta, limits: HoldLimits) -> Hold:
    holds = registry.holds(ref.using)
    with holds.all_or_nothing():
        # The row comes first: the second caller with a token takes nothing.
        until = holds.claim(asked)
        if until is not None:
            value = applied(_strategy(ref), Batch((delta,)), ref.using, ref.owner)[ref.key]
            # Whoever holds of the same counter waits for its total, so nobody is missed here.
            _check_limits(ref, asked, limits)
            return _made(ref, asked, int(value), until)
    return _same(holds.find(asked.token), asked, ref.using)


def _check_limits(ref: Ref, asked: Asked, limits: HoldLimits) -> None:
    """Refuse more than may be held at once; the row of ``asked`` is there already."""
    if limits.per_actor is None and limits.in_total is None:
        return
    found = registry.holds(ref.using).quantities(ref.owner, ref.text, asked.actor)
    for held, limit in zip(found, (limits.per_actor, limits.in_total), strict=True):
        if limit is not None and held > limit:
            before = held - asked.quantity
            raise HoldLimitExceeded(
                key=ref.label, requested=asked.quantity, held=before, limit=limit
            )


def check_holds(ref: Ref) -> None:
    """Refuse a counter of which nothing can be held."""
    if not ref.recipe.can.holds:
        raise UnsupportedHold(key=ref.label, reason=f"{ref.strategy} counters cannot promise it")
    if ref.buffer is not None:
        reason = "increments in the buffers of other processes are not known"
        raise UnsupportedHold(key=ref.label, reason=reason)
    if is_regional(ref):
        raise UnsupportedHold(key=ref.label, reason="a region knows what others count too late")
    if ref.measure is not None and ref.measure.once is not None:
        raise UnsupportedHold(key=ref.label, reason="it counts once for each actor")
    if ref.measure is not None and ref.measure.quotas:
        reason = "it has a quota, and may come back in another period. Hold a counter without one"
        raise UnsupportedHold(key=ref.label, reason=reason)


def _checked(
    ref: Ref,
    quantity: object,
    minutes: object,
    token: object,
    note: str,
    who: object,
    limits: HoldLimits,
) -> Asked:
    check_holds(ref)
    if max(len(ref.owner), len(ref.text)) > NAME_LENGTH:
        reason = f"to be held it may have {NAME_LENGTH} characters"
        raise InvalidKey(key=ref.label, reason=reason)
    if len(note) > NAME_LENGTH:
        raise ValueError(f"A note has at most {NAME_LENGTH} characters, not {len(note)}.")
    if character := steering(note):
        raise ValueError(f"A note can't have {character!a}: it steers how the note is shown.")
    actor = "" if who is None else actor_of(who)
    if limits.per_actor is not None and not actor:
        raise InvalidActor(who=who, reason=f"{ref.label} limits what each actor holds. Pass who")
    name = name_of(mint(clock.utc()) if token is None else token)
    seconds = _seconds(minutes, limits.minutes)
    return Asked(name, ref.owner, ref.text, _positive(quantity), seconds, note, actor)


def name_of(token: object) -> str:
    """The token of a hold as its row has it: the text, or the digest of one with a scope.

    Raises:
        InvalidToken: it is none.
    """
    found = check_token(token)
    if "\0" in found.text and not found.scope:
        raise InvalidToken(token=found.text, reason="it contains a NUL")
    return found.digest.hex() if found.scope else found.text


def _positive(quantity: object) -> int:
    number = check_delta(quantity)
    if number < 0:
        raise InvalidDelta(delta=quantity, reason="a held quantity is above zero")
    return number


def _seconds(minutes: object, most: int = MOST_MINUTES) -> float:
    is_number = isinstance(minutes, int | float) and not isinstance(minutes, bool)
    if not is_number or not 0 < minutes <= most:  # type: ignore[operator]
        reason = f"a hold lasts for more than 0 and at most {most} minutes"
        raise InvalidDelta(delta=minutes, reason=reason)
    return float(minutes) * 60  # type: ignore[arg-type]


def _delta(ref: Ref, by: int) -> Delta:
    """The change of a hold. Where no floor is declared it is zero; giving back is always
    allowed."""
    if by > 0:
        return Change(ref, by).apart._replace(bounds=UNBOUNDED, quotas=())
    asked = UNBOUNDED if ref.bounds.floor is not None else _NOT_BELOW_ZERO
    return Change(ref, by, asked).delta


def _strategy(ref: Ref) -> Strategy:
    return registry.strategy(ref.recipe, ref.table, ref.using)


def _at_once(ref: Ref, asked: Asked, delta: Delta, limits: HoldLimits) -> Hold | None:
    """All of it in one statement; None where there is none, or it has refused."""
    holds = registry.holds(ref.using)
    is_limited = limits.per_actor is not None or limits.in_total is not None
    if ref.owner or not holds.at_once or delta.effects or is_limited:
        return None
    low, high = ref.table.capacity
    least = (delta.bounds.floor or 0) + asked.quantity
    if not low <= least <= high:
        return None
    taken = holds.take(asked, least)
    if taken is None:
        return None
    if batch_applied.receivers:
        tell(_strategy(ref), Batch((delta,)), {ref.key: taken[0]}, ref.using)
    return _made(ref, asked, *taken)


def _made(ref: Ref, asked: Asked, value: int, until: datetime) -> Hold:
    row = Row(*asked[:4], 0, State.HELD, asked.note, asked.actor, 0, until, False)
    return _hold(row, ref.using, available=value)


def _hold(row: Row, using: str, *, available: int | None = None, replayed: bool = False) -> Hold:
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


def _same(found: Row | None, asked: Asked, using: str) -> Hold:
    """The hold that an earlier call has made with the same token."""
    if found is None:
        raise RetryTransaction(what="the hold")
    if (*found[1:4], found.actor) != (*asked[1:4], asked.actor):
        raise TokenConflict(token=asked.token)
    return _hold(found, using, replayed=True)


def find(token: object, using: str | None) -> Hold:
    """The hold with a token, as it is now.

    Raises:
        HoldMissing: there is none.
    """
    alias, name = COUNTERS.writing(using), name_of(token)
    return _hold(_row(name, alias), alias)


def held(ref: Ref, limit: int) -> list[Hold]:
    """The holds of a counter, the first to expire first."""
    rows = registry.holds(ref.using).held(ref.owner, ref.text, limit)
    return [_hold(row, ref.using) for row in rows]


def _row(name: str, using: str) -> Row:
    row = registry.holds(using).find(name)
    if row is None:
        raise HoldMissing(token=name)
    return row


def commit(token: object, quantity: object = None, using: str | None = None) -> Hold:
    """Sell what is held; see `Hold.commit`."""
    alias, name = COUNTERS.writing(using), name_of(token)
    wanted = None if quantity is None else _positive(quantity)
    holds = registry.holds(alias)
    if wanted is None:
        done = holds.commit(name, None) is not None
    else:
        with holds.all_or_nothing():
            ended = holds.commit(name, wanted)
            if ended is not None and ended.quantity > wanted:
                give_back(ended.label, ended.key, ended.quantity - wanted, alias)
        done = ended is not None
    row = _row(name, alias)
    if not done:
        _refuse_commit(row, wanted)
    return _hold(row, alias, replayed=not done)


def _refuse_commit(row: Row, wanted: int | None) -> None:
    """Say why a hold was not committed, unless it was before, and as much of it."""
    if row.state == State.COMMITTED and row.sold == (wanted or row.quantity):
        return
    if row.runs and wanted is not None and wanted > row.quantity:
        reason = f"the hold has {row.quantity} of {_label(row)}"
        raise InvalidDelta(delta=wanted, reason=reason)
    raise _ended(row)


def _ended(row: Row) -> Exception:
    """Why nothing more can be done with a hold."""
    if row.runs:
        # It did not when it was to be changed.
        return RetryTransaction(what="the hold")
    kind = HoldExpired if row.state in (State.HELD, State.EXPIRED) else HoldEnded
    state = State(row.state).name.lower()
    return kind(token=row.token, key=_label(row), quantity=row.quantity, state=state)


def _label(row: Row) -> str:
    return f"{row.label}:{row.key}" if row.label else row.key


def release(token: object, using: str | None = None) -> bool:
    """Give back what is held; see `Hold.release`."""
    alias, name = COUNTERS.writing(using), name_of(token)
    holds = registry.holds(alias)
    with holds.all_or_nothing():
        ended = holds.release(name)
        if ended is not None:
            give_back(ended.label, ended.key, ended.quantity, alias)
            return True
    row = _row(name, alias)
    if row.state not in (State.RELEASED, State.EXPIRED):
        raise _ended(row)
    return False


def extend(token: object, minutes: object, using: str | None = None) -> Hold:
    """Hold it for longer; see `Hold.extend`."""
    alias, name = COUNTERS.writing(using), name_of(token)
    row = _row(name, alias)
    try:
        ref = ref_of(row.label, row.key, alias)
        limits = limits_of(ref)
    except RecordMissing:
        ref, limits = None, HoldLimits(None, None, MOST_MINUTES)
    # It never lasts longer than it might have been made for.
    seconds = min(_seconds(minutes), max(limits.minutes * 60 - row.age, 0))
    holds = registry.holds(alias)
    if ref is None or (limits.per_actor is None and limits.in_total is None):
        until = holds.extend(name, seconds)
    else:
        corrections = registry.corrections(ref.table, alias, ref.key_field)
        with corrections.correcting("the hold"):
            until = holds.extend(name, seconds)
            if until is not None:
                # Another caller may have found it over before this commits, and held instead.
                if holds.waits_for_others:
                    corrections.hold([ref.key])
                asked = Asked(*row[:4], seconds, actor=row.actor)
                _check_limits(ref, asked, limits)
    row = _row(name, alias)
    if until is None:
        raise _ended(row)
    return _hold(row._replace(expires_at=until), alias)


def give_back(label: str, key: str, quantity: int, using: str) -> None:
    """Add to a counter what was held, within the transaction that ends the hold.

    Of a record that is gone there is nothing to add to.
    """
    try:
        _credit(ref_of(label, key, using), quantity)
    except RecordMissing:
        return


def _credit(ref: Ref, quantity: int) -> None:
    # Also where the strategy was changed meanwhile: it is the total that was taken from.
    recipe = ref.recipe if ref.recipe.can.holds else EXACT
    strategy = registry.strategy(recipe, ref.table, ref.using)
    applied(strategy, Batch((_delta(ref, quantity),)), ref.using, ref.owner)


def expire(ref: Ref, limit: int = AT_ONCE) -> int:
    """Give back what is held of a counter beyond its time; how many holds that were.

    A second caller that does the same waits here for the first, and then finds what is left.

    Raises:
        RecordMissing: the record is gone.
    """
    holds = registry.holds(ref.using)
    several = holds.waits_for_others
    if several and not holds.overdue(ref.owner, ref.text):
        return 0
    corrections = registry.corrections(ref.table, ref.using, ref.key_field)
    with corrections.correcting("the hold"):
        # The total before the rows: so that no two of them wait for each other.
        if several and ref.key not in corrections.hold([ref.key]).found:
            raise RecordMissing(key=ref.label)
        quantities = holds.expire(ref.owner, ref.text, limit)
        if quantities:
            _credit(ref, sum(quantities))
    return len(quantities)
