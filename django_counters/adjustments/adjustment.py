"""Adjust counters with who did it and why, or forget them."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from django_counters import exceptions as errors
from django_counters.adjustments.models import (
    CASE_LENGTH,
    NAME_LENGTH,
    REASON_LENGTH,
    CounterAdjustment,
)
from django_counters.adjustments.sql import SqlAudit
from django_counters.exceptions import (
    ApprovalRequired,
    CounterError,
    CounterOverflow,
    InvalidAdjustment,
)
from django_counters.measure import OCCURRENCE, SUM
from django_counters.projections.top import with_ranks
from django_counters.registry import registry
from django_counters.signals import counter_adjusted
from django_counters.stores.base import PendingParts
from django_counters.stores.sql.cells import Part
from django_counters.stores.sql.totals import SqlCorrections
from django_counters.strategies.base import Outside, Strategy
from django_counters.strategies.declaring import Capabilities
from django_counters.strategies.periods import booked, in_period
from django_counters.strategies.refusals import period_name, refusal, refuse_beyond_quotas
from django_counters.tables.standing import COUNTERS
from django_counters.tenants import for_this_tenant
from django_counters.tokens import Token, check_token
from django_counters.types import (
    INT8,
    UNBOUNDED,
    Amounts,
    Batch,
    Bounds,
    Cell,
    Delta,
    check_delta,
    check_integer,
    deltas_of,
    namespace_of,
)
from django_counters.write import pipeline
from django_counters.write.belongings import DELETED, forget_added, forget_rows
from django_counters.write.change import Change, Ref, named
from django_counters.write.collector import AsyncCollector, collector_of
from django_counters.write.once import Call, once
from django_counters.write.pipeline import owed

# The tables of numbers that writers of one counter add to at once.
_NUMBERS = frozenset({"CounterCell", "CounterOccurrence"})

LONGEST_REQUEST_ID = 128
# Invisible letters and signs: fillers of Hangul, the empty pattern of Braille.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")


class Person(NamedTuple):
    """Who adjusts: a user, or anything with a name."""

    id: str
    name: str

    def is_same(self, other: Person) -> bool:
        """Whether both are the same person, by id, which outlives a name, or by name."""
        return self.name == other.name or bool(self.id and self.id == other.id)


@dataclass(frozen=True, slots=True)
class Order:
    """What to change, and why. One of ``to`` and ``by`` is given.

    ``last``: the number of the last adjustment that the person saw, zero for none. While it is
    still the last one, ``by`` needs no expected value: increments meanwhile do not matter.
    """

    to: int | None
    by: int | None
    expected: int | None
    reason: str
    actor: Person
    approver: Person | None
    case: str
    request_id: str
    allow_below_floor: bool
    last: int | None = None

    @property
    def how(self) -> str:
        """Whether the amount is the new value, ``to``, or the change, ``by``."""
        return "by" if self.to is None else "to"

    @property
    def amount(self) -> int:
        """The new value, or the change."""
        return self.by or 0 if self.to is None else self.to

    def delta(self, before: int) -> int:
        """By how much a value changes."""
        return self.amount if self.to is None else self.to - before


def order_of(
    *,
    to: object = None,
    by: object = None,
    expected: object = None,
    reason: object,
    actor: object,
    approver: object = None,
    case: object = "",
    request_id: object = "",
    allow_below_floor: bool = False,
    last: int | None = None,
) -> Order:
    """A checked order.

    Raises:
        InvalidAdjustment: it does not say what to do, who asks, or why.
        InvalidDelta: a number is invalid.
    """
    if (to is None) == (by is None):
        raise InvalidAdjustment(problem="give either the new value (to) or the change (by)")
    who = person_of(actor, "an actor")
    second = None if approver is None else person_of(approver, "an approver")
    if second and second.is_same(who):
        raise InvalidAdjustment(
            problem="an adjustment is approved by another person than its author"
        )
    return Order(
        to=None if to is None else check_integer(to),
        by=None if by is None else check_delta(by),
        expected=None if expected is None else check_integer(expected),
        reason=shown(reason, "a reason", REASON_LENGTH),
        actor=who,
        approver=second,
        case=shown(case, "a case", CASE_LENGTH) if case else "",
        request_id=text_of(request_id, "a request id", NAME_LENGTH) if request_id else "",
        allow_below_floor=allow_below_floor,
        last=None if by is None else last,
    )


def person_of(given: object, what: str) -> Person:
    """A person, from a user or a name.

    Raises:
        InvalidAdjustment: it is neither, or an unsaved user.
    """
    if isinstance(given, Person):
        return Person(given.id, text_of(given.name, what, NAME_LENGTH))
    if hasattr(given, "get_username"):
        user: Any = given
        if user.pk is None:
            raise InvalidAdjustment(problem=f"{what} is needed, and this user is not saved")
        # The name of a custom user need not be a text.
        return Person(str(user.pk), text_of(str(user.get_username()), what, NAME_LENGTH))
    return Person("", text_of(given, what, NAME_LENGTH))


def text_of(given: object, what: str, longest: int) -> str:
    """A text that a database can keep, without surrounding white space.

    Raises:
        InvalidAdjustment: it is no text, or blank, or too long.
    """
    text = given.strip() if isinstance(given, str) else ""
    if not text:
        raise InvalidAdjustment(problem=f"{what} is needed, as a text that is not blank")
    if len(text) > longest:
        raise InvalidAdjustment(problem=f"{what} may have {longest} characters, not {len(text)}")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidAdjustment(problem=f"{what} has a character that no database keeps")
    return text


# They change the direction of the following text.
_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def steering(text: str) -> str:
    """The first character that steers how a text is shown: of a terminal, or by its direction."""
    for character in text:
        if character in _TURNS:
            return character
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n\r":
            return character
    return ""


def shown(given: object, what: str, longest: int) -> str:
    """A text that shows as it is on a page, in a terminal and in a spreadsheet."""
    text = text_of(given, what, longest)
    if character := steering(text):
        problem = f"{what} has a character that steers how it is shown: {character!a}"
        raise InvalidAdjustment(problem=problem)
    if not any(_is_seen(character) for character in text):
        raise InvalidAdjustment(problem=f"{what} is needed, as a text that can be seen")
    return text


def _is_seen(character: str) -> bool:
    category = unicodedata.category(character)
    # Characters without a meaning (yet) show as a box.
    has_shape = category in ("Cn", "Co") or category[0] not in "CMZ"
    return has_shape and character not in _BLANK


def request_id_of(given: str) -> str:
    """The ``X-Request-ID`` of a request, if it can be kept; else an empty text."""
    name = given.strip()
    return name if len(name) <= LONGEST_REQUEST_ID and name.isprintable() else ""


# Previews.


class QuotaEffect(NamedTuple):
    """How much of a quota is used before and after an adjustment."""

    period: str
    before: int
    after: int
    ceiling: int


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of an adjustment now.

    Attributes:
        before: the exact value.
        after: the new value.
        delta: the change.
        refusal: why the adjustment would be refused, if it would be.
        needs_approval: whether it would be refused because it needs a second person.
        last: the number of the last adjustment of the counter; zero if there is none.
        quotas: the effect on each quota in the present period, the shortest period first.
    """

    before: int
    after: int
    delta: int
    refusal: CounterError | None
    needs_approval: bool
    last: int
    quotas: tuple[QuotaEffect, ...] = ()


def preview(
    ref: Ref, *, to: object = None, by: object = None, allow_below_floor: bool = False
) -> Preview:
    """The effect of an adjustment now. Changes nothing.

    Raises:
        InvalidDelta, InvalidAdjustment: the adjustment is invalid.
        RecordMissing: the record does not exist (any more).
        CounterUnavailable: the value cannot be read.
    """
    order = order_of(to=to, by=by, reason="-", actor="-", allow_below_floor=allow_below_floor)
    return foreseen(ref, order, ref.using)


def foreseen(ref: Ref, order: Order, alias: str) -> Preview:
    """The effect of an order now."""
    # First, so that it misses no adjustment that others make meanwhile.
    last = SqlAudit(alias).last_of(ref.owner, ref.text)
    before = strategy_of(ref, alias).read(ref.key, "exact", 0.0).value
    before += owed(ref, alias)
    delta = order.delta(before)
    problem: CounterError | None = None
    needs_approval = False
    try:
        refuse(ref, order, before)
    except ApprovalRequired as error:
        problem, needs_approval = error, True
    except CounterError as error:
        problem = error
    quotas = _foreseen_quotas(ref, delta)
    return Preview(before, before + delta, delta, problem, needs_approval, last, quotas)


def _foreseen_quotas(ref: Ref, delta: int) -> tuple[QuotaEffect, ...]:
    if ref.measure is None or not ref.measure.quotas:
        return ()
    quotas = Change(ref, 1).apart.quotas
    corrections = registry.corrections(ref.table, ref.using)
    used = corrections.used([(ref.key, quota.cell) for quota in quotas])
    return tuple(
        QuotaEffect(period_name(quota), before, before + booked(delta, before), quota.most)
        for quota, before in zip(quotas, used, strict=True)
    )


def adjust(ref: Ref, *, token: str | UUID | Token | None = None, **asked: Any) -> CounterAdjustment:
    """Adjust one counter; see `CounterManager.adjust`."""
    order, alias = order_of(**asked), ref.using
    given = None if token is None else check_token(token)
    settle_async([ref], alias)
    with adjusting(ref, alias) as audit:
        if given is None:
            return correct(ref, order, alias, audit)
        return _correct_once(ref, order, alias, audit, given)


def settle_async(refs: Iterable[Ref], alias: str) -> None:
    """Apply what asynchronous code has collected. It commits at once, as that code does."""
    if isinstance(collector_of(alias), AsyncCollector):
        settle(refs, alias)


@contextmanager
def adjusting(ref: Ref, alias: str) -> Iterator[SqlAudit]:
    """A transaction, or a savepoint, in which nobody else adjusts."""
    audit = registry.kept(SqlAudit, alias)
    with registry.corrections(ref.table, alias).correcting():
        audit.alone()
        yield audit


def correct(ref: Ref, order: Order, alias: str, audit: SqlAudit) -> CounterAdjustment:
    """Adjust one counter, within `adjusting`."""
    done = correct_many([(ref, order)], alias, audit)
    for error in done.refused.values():
        raise error
    return done.rows[0]


def _correct_once(
    ref: Ref, order: Order, alias: str, audit: SqlAudit, token: Token
) -> CounterAdjustment:
    """Adjust one counter, or return the adjustment that the token has made before."""
    call = Call(f"adjust {order.how} {ref.owner}", {ref.text: order.amount})
    rows: list[CounterAdjustment] = []

    def work() -> dict[str, int]:
        rows.append(correct(ref, order, alias, audit))
        return {ref.text: rows[0].number}

    answer = once(token, call, alias, work)
    if rows:
        return rows[0]
    earlier = audit.number(int(answer.values[ref.text]))
    earlier.replayed = True
    return earlier


def forget(key: object, using: str | None) -> int:
    """Set a named counter to zero in one transaction, and return its last value.

    Its rows in other tables go with it; see `write.belongings`. Amounts that wait elsewhere, and
    entries of the ledger, stay there. The total and the periods are reduced by them, so that the
    sums are zero after a rollup and a flush.
    """
    ref = named(key, using)
    settle_async([ref], ref.using)
    corrections = registry.corrections(ref.table, ref.using)
    with corrections.correcting():
        value = _forgotten(ref, corrections)
        # A later rollup needs the row, and so do entries.
        rows = COUNTERS.rows(ref.using).filter(key=ref.text)
        rows.filter(value=0, outside__isnull=True).delete()
    return value


def _forgotten(ref: Ref, corrections: SqlCorrections) -> int:
    """Take the value of a counter away, and what belongs to it.

    Rows are changed in the order of those who count: actors, total, periods, sets, occurrences.
    Writers of some strategies go on meanwhile, so numbers are not deleted, but reduced by what they
    were at the moment of the value.
    """
    measure = ref.measure
    parts: list[Part] = []
    stored = registry.measures(ref.using).find(measure.name) if measure else None
    actors = _forget_rows(ref, ["CounterActor"])["CounterActor"] if measure and measure.once else 0
    outside: Outside | None = None
    waiting = PendingParts((), ())
    if measure is not None and measure.counts_actors:
        value = actors
        if value:
            strategy_of(ref, ref.using).apply(Batch((_taken(ref, value),)))
    else:
        amounts = meet([ref], ref.using).found[ref.key]
        if stored is not None:
            amounts, parts = corrections.counted(ref.key, stored.id)
        outside = registry.outside(ref.recipe, ref.table, ref.using)
        waiting = outside.parts(ref.key) if outside else waiting
        value = amounts.value + sum(by for _, cell, by in waiting.amounts if cell is None)
        _take(ref, value, amounts, corrections)
    if stored is not None:
        if measure is not None and measure.counts_actors:
            _, parts = corrections.counted(ref.key, stored.id)
        _forget_rows(ref, ["CounterRank"])
        corrections.take_back(ref.key, parts, SUM)
    _forget_rows(ref, [one for one in DELETED if stored is None or one not in _NUMBERS])
    forget_added("", [ref.text], ref.using)
    corrections.take_back(ref.key, parts, OCCURRENCE)
    if outside:
        _forget_waiting(ref, outside, waiting)
    return value


def _forget_rows(ref: Ref, among: Collection[str]) -> Mapping[str, int]:
    name = ref.measure.name if ref.measure else namespace_of(ref.text)
    return forget_rows("", name, ref.measure, [ref.text], ref.using, among=among)


def _taken(ref: Ref, value: int) -> Delta:
    """The change that takes a value away, from no period."""
    return Change(ref, -value).apart._replace(bounds=UNBOUNDED, effects=())


def _take(ref: Ref, value: int, amounts: Amounts, corrections: SqlCorrections) -> None:
    """Take a value away from a total that is held."""
    low, high = INT8
    if not low <= -value <= high:
        raise CounterOverflow(key=ref.label, low=low, high=high)
    if value and ref.recipe.can.entries:
        # Entries are its history, so this is another entry.
        strategy_of(ref, ref.using).apply(Batch((_taken(ref, value),)))
    elif value:
        corrections.check(ref.key, -value, amounts.total or 0)
        corrections.correct({ref.key: -value})


def _forget_waiting(ref: Ref, outside: Outside, waiting: PendingParts) -> None:
    """Let what waits in Redis come to nothing when it lands in the periods."""
    if ref.measure is not None:
        measures = registry.measures(ref.using)
        known = {measures.ensure(ref.measure).id: ref.measure}
        sums: dict[tuple[str, Cell | None], int] = {}
        for _, cell, by in waiting.amounts:
            if cell is not None:
                sums[ref.text, cell] = sums.get((ref.text, cell), 0) - by
        taken = measures.with_admitted(deltas_of(with_ranks(sums, known)))
        registry.corrections(ref.table, ref.using).add_cells(taken)

    def forget_outside() -> None:
        outside.forget([ref.key])
        outside.discard_sets(ref.key, waiting.sets)

    transaction.on_commit(for_this_tenant(forget_outside), using=ref.using, robust=True)


# The change itself: hold counters, read their exact values, change them, and record that.


def settle(refs: Iterable[Ref], alias: str) -> None:
    """Apply what the caller has collected for the counters."""
    if collector_of(alias) is not None:
        pipeline.settle([ref.text for ref in refs if not ref.owner], alias)


class Planned(NamedTuple):
    """The adjustment of one counter."""

    ref: Ref
    order: Order
    before: int
    delta: int
    can: Capabilities


@dataclass(frozen=True, slots=True)
class Corrected:
    """The result of orders.

    Attributes:
        rows: the written adjustments, in the order of the orders.
        refused: the refused counters, and why.
        in_vain: whether totals were created for some of the refused counters.
    """

    rows: Sequence[CounterAdjustment]
    refused: Mapping[Ref, errors.CounterError]
    in_vain: bool


def correct_many(orders: Sequence[tuple[Ref, Order]], alias: str, audit: SqlAudit) -> Corrected:
    """Adjust those of some counters of one table that are not refused, within `adjusting`.

    It holds the totals first, so that the values do not change before the adjustments. The number
    of statements does not depend on the number of counters, except for entries.
    """
    met = meet([ref for ref, _ in orders], alias)
    plans: list[Planned] = []
    refused: dict[Ref, errors.CounterError] = {}
    for ref, order in orders:
        try:
            plans.append(_planned(ref, order, met, audit))
        except errors.CounterError as error:
            refused[ref] = error
    rows = _carried_out(plans, met.corrections, alias, audit) if plans else []
    in_vain = any(ref.key in met.made for ref in refused)
    return Corrected(rows, refused, in_vain)


def _planned(ref: Ref, order: Order, met: Met, audit: SqlAudit) -> Planned:
    """The adjustment of a counter that is held, unless it is refused."""
    if ref.key not in met.values:
        raise errors.RecordMissing(key=ref.label)
    before = met.values[ref.key]
    delta = order.delta(before)
    refuse_stale(ref, order, before, audit)
    refuse(ref, order, before)
    can = ref.recipe.can
    if not can.entries:
        met.corrections.check(ref.key, delta, met.found[ref.key].total or 0)
    return Planned(ref, order, before, delta, can)


def _carried_out(
    plans: Sequence[Planned], corrections: SqlCorrections, alias: str, audit: SqlAudit
) -> Sequence[CounterAdjustment]:
    entered = [plan for plan in plans if plan.delta and plan.can.entries]
    credited = [plan for plan in plans if plan.delta and not plan.can.entries]
    entries: Mapping[str, UUID] = {}
    if entered:
        ledger = registry.deltas(alias)
        entries = ledger.adjust({plan.ref.text: plan.delta for plan in entered})
    if credited:
        corrections.correct({plan.ref.key: plan.delta for plan in credited})
    # An adjustment counts in the period in which it is made, and has no tags.
    made = [Change(plan.ref, plan.delta).apart for plan in credited]
    if any(delta.effects for delta in made):
        corrections.add_cells(in_period(made, corrections))
        # A period may have begun since each was asked about, and have less room.
        refuse_beyond_quotas(made, corrections, counted=True)
    if entered:
        made = [Change(plan.ref, plan.delta).apart for plan in entered]
        ledger.add_cells(in_period(made, corrections))
    rows = audit.write([_columns(plan, entries) for plan in plans])
    for strategy, keys in _outside([plan.ref for plan in plans if plan.can.outside], alias):
        _forget_after_commit(strategy, keys, alias)
    for row in rows:
        _tell_after_commit(row, alias)
    return rows


class Met(NamedTuple):
    """Counters whose totals are held by ``corrections``: their amounts and their exact values.

    Missing records are in none of them. ``made``: the counters whose totals were created.
    """

    corrections: SqlCorrections
    found: Mapping[Hashable, Amounts]
    values: Mapping[Hashable, int]
    made: frozenset[Hashable]


def meet(refs: Sequence[Ref], alias: str) -> Met:
    """Hold the totals of counters of one table until the transaction ends, and read them."""
    settle(refs, alias)
    corrections = registry.corrections(refs[0].table, alias)
    floors = [
        ref.key for ref in refs if ref.bounds.floor is not None and not ref.recipe.can.in_place
    ]
    found, made = corrections.hold([one.key for one in refs], floors)
    return Met(corrections, found, _exact(refs, found, alias), made)


def foreseen_values(refs: Sequence[Ref], alias: str) -> dict[Ref, int]:
    """The present exact values of existing counters of one table. Holds nothing."""
    corrections = registry.corrections(refs[0].table, alias)
    keys = [ref.key for ref in refs]
    # A missing record has no value; any other counter without a row is zero.
    found = dict.fromkeys(keys, Amounts(None, 0)) if corrections.inserts else {}
    values = _exact(refs, found | dict(corrections.read(keys)), alias)
    known = (ref for ref in refs if ref.key in values)
    return {ref: values[ref.key] + pipeline.owed(ref, alias) for ref in known}


def _exact(
    refs: Iterable[Ref], found: Mapping[Hashable, Amounts], alias: str
) -> dict[Hashable, int]:
    """The exact values of what was found. Asks Redis for those of cached counters."""
    values = {key: amounts.value for key, amounts in found.items()}
    for strategy, keys in _outside(refs, alias):
        known = strategy.values(keys)
        values.update({key: known.get(key, 0) for key in keys if key in values})
    return values


def refuse_stale(ref: Ref, order: Order, before: int, audit: SqlAudit) -> None:
    """Refuse a decision that was made by looking at another value.

    Raises:
        ValueChanged: the value is not the expected one, and that matters.
    """
    if order.expected in (None, before):
        return
    if order.last is None or audit.last_of(ref.owner, ref.text) != order.last:
        raise errors.ValueChanged(key=ref.label, expected=order.expected, current=before)


def refuse(ref: Ref, order: Order, before: int) -> None:
    """Refuse an adjustment beyond the bounds, or one that needs a second person."""
    if ref.measure is not None and ref.measure.counts_actors:
        problem = f"{ref.label} counts actors: its value is how many there are; count or forget one"
        raise errors.InvalidAdjustment(problem=problem)
    delta, limit = order.delta(before), ref.approve_above
    _refuse_number(ref, order, before, delta)
    if limit is not None and abs(delta) > limit and order.approver is None:
        raise errors.ApprovalRequired(key=ref.label, delta=delta, limit=limit)


def _refuse_number(ref: Ref, order: Order, before: int, delta: int) -> None:
    """Refuse a value beyond the bounds or quotas of the counter, or beyond 64 bits."""
    low, high = ref.table.capacity
    fits = low <= before + delta <= high and all(
        INT8[0] <= kept <= INT8[1] for kept in (before, delta)
    )
    bounds = Bounds(None, ref.bounds.ceiling) if order.allow_below_floor else ref.bounds
    if not bounds.admits(before, delta):
        raise refusal([(Delta(ref.key, delta, bounds), before)], lambda _: ref.label)
    if not fits:
        raise errors.CounterOverflow(key=ref.label, low=low, high=high)
    if delta > 0 and ref.measure is not None and ref.measure.quotas:
        refuse_beyond_quotas(
            [Change(ref, delta).apart], registry.corrections(ref.table, ref.using), counted=False
        )


def _columns(plan: Planned, entries: Mapping[str, UUID]) -> dict[str, Any]:
    """The columns of an adjustment."""
    ref, order, before, delta, _ = plan
    key = ref.text
    second = order.approver or Person("", "")
    return {
        "field": ref.owner,
        "key": key,
        "before": before,
        "after": before + delta,
        "delta": delta,
        "reason": order.reason,
        "case": order.case,
        "actor_id": order.actor.id,
        "actor_name": order.actor.name,
        "approver_id": second.id,
        "approver_name": second.name,
        "request_id": order.request_id,
        "entry": entries.get(key),
    }


def _tell_after_commit(row: CounterAdjustment, alias: str) -> None:
    # Django logs the name of a callback that fails, and a partial has none.
    def tell() -> None:
        counter_adjusted.send(sender=CounterAdjustment, adjustment=row, using=alias)

    transaction.on_commit(for_this_tenant(tell), using=alias, robust=True)


def _forget_after_commit(strategy: Outside, keys: Sequence[Hashable], alias: str) -> None:
    """Let Redis forget the totals of cached counters."""

    def forget_totals() -> None:
        strategy.forget(keys)

    transaction.on_commit(for_this_tenant(forget_totals), using=alias, robust=True)


def _outside(refs: Iterable[Ref], alias: str) -> Iterable[tuple[Outside, list[Hashable]]]:
    found: dict[Outside, list[Hashable]] = {}
    for ref in refs:
        strategy = registry.outside(ref.recipe, ref.table, alias)
        if strategy:
            found.setdefault(strategy, []).append(ref.key)
    return found.items()


def strategy_of(ref: Ref, alias: str) -> Strategy:
    """How a counter is read."""
    return registry.strategy(ref.recipe, ref.table, alias)
