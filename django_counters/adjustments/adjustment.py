"""Adjust counters and record the person and the reason; forget counters."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils.module_loading import import_string

from django_counters import effects, errors, signals, types
from django_counters.adjustments import models
from django_counters.adjustments.sql import SqlAudit
from django_counters.measure import Kind
from django_counters.registry import registry
from django_counters.stores.base import PendingParts
from django_counters.stores.sql.cells import CellPart
from django_counters.stores.sql.totals import SqlCorrections
from django_counters.strategies.base import Outside, Strategy, refusal, refuse_guarded
from django_counters.strategies.declaring import Capabilities
from django_counters.tables.schema import COUNTERS
from django_counters.tenants import for_this_tenant
from django_counters.tokens import Token, check_token
from django_counters.write import collector, pipeline
from django_counters.write.changes import Call, Change, Ref, forget_added, forget_named, named, once

LONGEST_REQUEST_ID = 128
# Invisible letters and signs: Hangul fillers, the empty Braille pattern.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")


class Person(NamedTuple):
    """A user, or a job, a team or another thing with a name."""

    id: str
    name: str

    def is_same(self, other: Person) -> bool:
        """Return whether both are the same person: by id, which outlives a name, or by name."""
        return self.name == other.name or bool(self.id and self.id == other.id)


class Order(NamedTuple):
    """A change with its reason and people. One of ``to`` and ``by`` is None.

    ``last``: the number of the last adjustment that the person saw, zero for none. While it is
    still the last one, ``by`` ignores the expected value: increments since then don't matter.
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
        """Return ``to`` if the amount is the new value, ``by`` if it is the change."""
        return "by" if self.to is None else "to"

    @property
    def amount(self) -> int:
        """Return the new value, or the change."""
        return self.by or 0 if self.to is None else self.to

    def delta(self, before: int) -> int:
        """Return the change of a value."""
        return self.amount if self.to is None else self.to - before


def order_of(
    last: int | None = None,
    /,
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
) -> Order:
    """Return a checked order.

    Args:
        last: see `Order`. Its place keeps it out of the keyword arguments that callers pass on.

    Raises:
        InvalidAdjustment: the amount, the actor or the reason is missing or invalid.
        InvalidDelta: a number is invalid.
    """
    if (to is None) == (by is None):
        raise errors.InvalidAdjustment(problem="pass either the new value (to) or the change (by)")
    who = person_of(actor, "actor")
    second = None if approver is None else person_of(approver, "approver")
    if second and second.is_same(who):
        raise errors.InvalidAdjustment(problem="approver must be another person than actor")
    return Order(
        to=None if to is None else types.check_integer(to),
        by=None if by is None else types.check_delta(by),
        expected=None if expected is None else types.check_integer(expected),
        reason=shown(reason, "reason", models.REASON_LENGTH),
        actor=who,
        approver=second,
        case=shown(case, "case", models.CASE_LENGTH) if case else "",
        request_id=text_of(request_id, "request_id", models.NAME_LENGTH) if request_id else "",
        allow_below_floor=allow_below_floor,
        last=None if by is None else last,
    )


def person_of(value: object, name: str) -> Person:
    """Return a person, from a user or a name.

    Raises:
        InvalidAdjustment: the value isn't a saved user or a name.
    """
    if isinstance(value, Person):
        return Person(value.id, text_of(value.name, name, models.NAME_LENGTH))
    if hasattr(value, "get_username"):
        user: Any = value
        if user.pk is None:
            raise errors.InvalidAdjustment(problem=f"{name} is a user that isn't saved")
        # A custom user's name needn't be a text.
        return Person(str(user.pk), text_of(str(user.get_username()), name, models.NAME_LENGTH))
    return Person("", text_of(value, name, models.NAME_LENGTH))


def text_of(value: object, name: str, longest: int) -> str:
    """Return a text that databases can store, without surrounding white space.

    Raises:
        InvalidAdjustment: the value isn't a text, or is blank or too long.
    """
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise errors.InvalidAdjustment(problem=f"{name} must be a text that isn't blank")
    if len(text) > longest:
        problem = f"{name} has {len(text)} characters, at most {longest} are allowed"
        raise errors.InvalidAdjustment(problem=problem)
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise errors.InvalidAdjustment(problem=f"{name} has a character that databases can't store")
    return text


# They change the direction of the following text.
_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def steering(text: str) -> str:
    """Return the first character that controls the display, of a terminal or by its direction."""
    for character in text:
        if character in _TURNS:
            return character
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n\r":
            return character
    return ""


def shown(value: object, name: str, longest: int) -> str:
    """Return a text that pages, terminals and spreadsheets display as it is."""
    text = text_of(value, name, longest)
    if character := steering(text):
        problem = f"{name} has a character that controls its display: {character!a}"
        raise errors.InvalidAdjustment(problem=problem)
    kinds = [unicodedata.category(one) for one in text if one not in _BLANK]
    # Unassigned characters display as a box.
    if not any(kind in ("Cn", "Co") or kind[0] not in "CMZ" for kind in kinds):
        raise errors.InvalidAdjustment(problem=f"{name} must have a visible character")
    return text


def request_id_of(header: str) -> str:
    """Return the ``X-Request-ID`` of a request if it can be stored, else an empty text."""
    name = header.strip()
    return name if len(name) <= LONGEST_REQUEST_ID and name.isprintable() else ""


# Previews.


class Preview(NamedTuple):
    """The effect of an adjustment now.

    Attributes:
        before: the exact value.
        after: the new value.
        delta: the change.
        refusal: the error that the adjustment would raise; None if it would succeed.
        needs_approval: whether that error is the missing second person.
        last: the number of the counter's last adjustment; zero for none.
        limits: the effect on each limit of its guard, as on a quota of the present period.
    """

    before: int
    after: int
    delta: int
    refusal: errors.CounterError | None
    needs_approval: bool
    last: int
    limits: Sequence[Any] = ()


def preview(
    ref: Ref, *, to: object = None, by: object = None, allow_below_floor: bool = False
) -> Preview:
    """Return the effect of an adjustment now. Changes nothing.

    Raises:
        InvalidDelta, InvalidAdjustment: the adjustment is invalid.
        RecordMissing: the record doesn't exist.
        CounterUnavailable: the value can't be read.
    """
    order = order_of(to=to, by=by, reason="-", actor="-", allow_below_floor=allow_below_floor)
    return foreseen(ref, order, ref.using)


def foreseen(ref: Ref, order: Order, alias: str) -> Preview:
    """Return the effect of an order now."""
    # Read first, so that a concurrent adjustment isn't missed.
    last = SqlAudit(alias).last_of(ref.owner, ref.text)
    before = strategy_of(ref, alias).read(ref.key, "exact", 0.0).value
    before += pipeline.owed(ref, alias)
    delta = order.delta(before)
    problem: errors.CounterError | None = None
    try:
        refuse(ref, order, before)
    except errors.CounterError as error:
        problem = error
    needs_approval = isinstance(problem, errors.ApprovalRequired)
    limits: Sequence[Any] = ()
    if ref.measure and ref.measure.guard and (guard := Change(ref, 1).apart.guard):
        limits = guard.foreseen(ref.key, delta, registry.corrections(ref.table, ref.using))
    return Preview(before, before + delta, delta, problem, needs_approval, last, limits)


def adjust(
    ref: Ref, last: int | None = None, /, *, token: str | UUID | Token | None = None, **options: Any
) -> models.CounterAdjustment:
    """Adjust one counter; see `CounterManager.adjust`, and `Order` for ``last``."""
    order, alias = order_of(last, **options), ref.using
    checked = None if token is None else check_token(token)
    settle_async([ref], alias)
    with adjusting(ref, alias) as audit:
        if checked is None:
            return correct(ref, order, alias, audit)
        return _correct_once(ref, order, alias, audit, checked)


def settle_async(refs: Iterable[Ref], alias: str) -> None:
    """Apply the changes that asynchronous code has collected. They commit at once."""
    if isinstance(collector.collector_of(alias), collector.AsyncCollector):
        settle(refs, alias)


@contextmanager
def adjusting(ref: Ref, alias: str) -> Iterator[SqlAudit]:
    """Open a transaction or savepoint that no concurrent adjustment can enter."""
    audit = registry.kept(SqlAudit, alias)
    with registry.corrections(ref.table, alias).correcting():
        audit.alone()
        yield audit


def correct(ref: Ref, order: Order, alias: str, audit: SqlAudit) -> models.CounterAdjustment:
    """Adjust one counter, within `adjusting`."""
    done = correct_many([(ref, order)], alias, audit)
    for error in done.refused.values():
        raise error
    return done.rows[0]


def _correct_once(
    ref: Ref, order: Order, alias: str, audit: SqlAudit, token: Token
) -> models.CounterAdjustment:
    """Adjust one counter, or return the adjustment that an earlier call with the token made."""
    call = Call(f"adjust {order.how} {ref.owner}", {ref.text: order.amount})
    rows: list[models.CounterAdjustment] = []

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
    """Set a named counter to zero in one transaction; return its last value.

    Deletes its rows in other tables; see `write.changes`. Pending amounts and entries of the
    ledger stay there. The total and the periods are reduced by them, so that the sums are zero
    after a rollup and a flush.
    """
    ref = named(key, using)
    settle_async([ref], ref.using)
    corrections = registry.corrections(ref.table, ref.using)
    with corrections.correcting():
        value = _forgotten(ref, corrections)
        # A later rollup and entries need the row if it isn't zero.
        rows = COUNTERS.rows(ref.using).filter(key=ref.text)
        rows.filter(value=0, outside__isnull=True).delete()
    return value


def _forgotten(ref: Ref, corrections: SqlCorrections) -> int:
    """Take a counter's value away, and its rows in other tables.

    Rows are changed in the same order as by increments: actors, total, periods, sets, occurrences.
    Writers of some strategies go on concurrently, so numbers aren't deleted. Each is reduced by its
    amount at the moment when the value was read.
    """
    measure = ref.measure
    parts: Mapping[Kind, Sequence[CellPart]] = {}
    counts_rows = measure is not None and measure.counts_rows
    condition = measure and measure.condition
    rows = condition.forget("", [ref.text], ref.using) if condition else 0
    outside: Outside | None = None
    waiting = PendingParts((), ())
    if counts_rows:
        if value := rows:
            strategy_of(ref, ref.using).apply(types.Batch((_taken(ref, value),)))
    else:
        amounts = lock([ref], ref.using).amounts[ref.key]
        if counted := _counted(ref, corrections):
            amounts, parts = counted
        outside = registry.outside(ref.recipe, ref.table, ref.using)
        waiting = outside.parts(ref.key) if outside else waiting
        value = amounts.value + sum(by for _, cell, by in waiting.amounts if cell is None)
        _take(ref, value, amounts, corrections)
    if counts_rows and (counted := _counted(ref, corrections)):
        parts = counted[1]
    later = list(parts.items())
    if later:
        forget_named(ref, lambda _, kind: kind is not None and kind.derived)
        corrections.take_back(ref.key, *later.pop(0))
    forget_named(ref, lambda _, kind: kind not in parts)
    forget_added("", [ref.text], ref.using)
    for kind, of_kind in later:
        corrections.take_back(ref.key, kind, of_kind)
    if outside:
        _forget_waiting(ref, outside, waiting)
    return value


def _counted(
    ref: Ref, corrections: SqlCorrections
) -> tuple[types.Amounts, Mapping[Kind, Sequence[CellPart]]] | None:
    """Return a value and the numbers beside it, of one moment; None if there are no numbers."""
    made = ref.measure.projector if ref.measure else None
    counted: tuple[types.Amounts, Mapping[Kind, Sequence[CellPart]]] | None
    counted = made.counted(ref.measure, ref.key, corrections) if made else None
    return counted


def _taken(ref: Ref, value: int) -> types.Delta:
    """Return the change that takes a value away, from no period."""
    return Change(ref, -value).apart._replace(bounds=types.UNBOUNDED, effects=())


def _take(ref: Ref, value: int, amounts: types.Amounts, corrections: SqlCorrections) -> None:
    """Take a value away from a locked total."""
    low, high = types.INT8
    if not low <= -value <= high:
        raise errors.CounterOverflow(key=ref.label, low=low, high=high)
    if value and ref.recipe.can.entries:
        # A ledger's history is its entries, so add another entry.
        strategy_of(ref, ref.using).apply(types.Batch((_taken(ref, value),)))
    elif value:
        corrections.check(ref.key, -value, amounts.total or 0)
        corrections.correct({ref.key: -value})


def _forget_waiting(ref: Ref, outside: Outside, waiting: PendingParts) -> None:
    """Offset the pending amounts in Redis, so that the periods are zero after the next flush."""
    made = ref.measure.projector if ref.measure else None
    if made is not None:
        sums: dict[tuple[str, types.Cell | None], int] = {}
        for _, cell, by in waiting.amounts:
            if cell is not None:
                sums[ref.text, cell] = sums.get((ref.text, cell), 0) - by
        derived = made.landing(ref.using, [ref.measure]).with_derived(sums)
        taken = made.admitted(types.deltas_of(derived), ref.using)
        registry.corrections(ref.table, ref.using).add_cells(taken)

    def forget_outside() -> None:
        outside.forget([ref.key])
        outside.discard_sets(ref.key, waiting.sets)

    transaction.on_commit(for_this_tenant(forget_outside), using=ref.using, robust=True)


# The change: lock counters, read their exact values, change them, and write the rows.


def settle(refs: Iterable[Ref], alias: str) -> None:
    """Apply the changes that the caller has collected for the counters."""
    if collector.collector_of(alias) is not None:
        pipeline.settle([ref.text for ref in refs if not ref.owner], alias)


class Planned(NamedTuple):
    """The adjustment of one counter."""

    ref: Ref
    order: Order
    before: int
    delta: int
    can: Capabilities


class Corrected(NamedTuple):
    """The result of orders.

    Attributes:
        rows: the written adjustments, in the order of the orders.
        refused: the error of each refused counter.
        in_vain: whether rows were created for refused counters.
    """

    rows: Sequence[models.CounterAdjustment]
    refused: Mapping[Ref, errors.CounterError]
    in_vain: bool


def correct_many(orders: Sequence[tuple[Ref, Order]], alias: str, audit: SqlAudit) -> Corrected:
    """Adjust counters of one table, except the refused ones, within `adjusting`.

    Locks the totals first, so that the values don't change before the adjustments. The number of
    statements doesn't depend on the number of counters, except for entries.
    """
    locked = lock([ref for ref, _ in orders], alias)
    plans: list[Planned] = []
    refused: dict[Ref, errors.CounterError] = {}
    for ref, order in orders:
        try:
            plans.append(_planned(ref, order, locked, audit))
        except errors.CounterError as error:
            refused[ref] = error
    rows = _carried_out(plans, locked.corrections, alias, audit) if plans else []
    in_vain = any(ref.key in locked.made for ref in refused)
    return Corrected(rows, refused, in_vain)


def _planned(ref: Ref, order: Order, locked: Locked, audit: SqlAudit) -> Planned:
    """Return the adjustment of a locked counter; raise the error that refuses it."""
    if ref.key not in locked.values:
        raise errors.RecordMissing(key=ref.label)
    before = locked.values[ref.key]
    delta = order.delta(before)
    refuse_stale(ref, order, before, audit)
    refuse(ref, order, before)
    if not ref.recipe.can.entries:
        locked.corrections.check(ref.key, delta, locked.amounts[ref.key].total or 0)
    return Planned(ref, order, before, delta, ref.recipe.can)


def _carried_out(
    plans: Sequence[Planned], corrections: SqlCorrections, alias: str, audit: SqlAudit
) -> Sequence[models.CounterAdjustment]:
    entered = [plan for plan in plans if plan.delta and plan.can.entries]
    credited = [plan for plan in plans if plan.delta and not plan.can.entries]
    entries: Mapping[str, UUID] = {}
    if entered:
        ledger = registry.kept(import_string("django_counters.ledger.deltas.deltas_of"), alias)
        entries = ledger.adjust({plan.ref.text: plan.delta for plan in entered})
    if credited:
        corrections.correct({plan.ref.key: plan.delta for plan in credited})
    # An adjustment counts in the present period, without tags.
    made = [Change(plan.ref, plan.delta).apart for plan in credited]
    if any(delta.effects for delta in made):
        corrections.add_cells(_taken_from_periods(made, corrections))
        # A new period may have begun since the check, with less room.
        refuse_guarded(made, corrections, counted=True)
    if entered:
        made = [Change(plan.ref, plan.delta).apart for plan in entered]
        ledger.add_cells(_taken_from_periods(made, corrections))
    rows = audit.write([_columns(plan, entries) for plan in plans])
    for strategy, keys in _outside([plan.ref for plan in plans if plan.can.outside], alias):
        _forget_after_commit(strategy, keys, alias)
    for row in rows:
        _tell_after_commit(row, alias)
    return rows


def _taken_from_periods(
    made: Sequence[types.Delta], corrections: SqlCorrections
) -> Sequence[types.Delta]:
    """Return changes of locked totals, with what decreases take from their periods."""
    known = effects.projector()
    return known.taken(made, corrections) if known else made


class Locked(NamedTuple):
    """Counters with totals locked by ``corrections``: their amounts and exact values.

    Missing records are in none of them. ``made``: the counters whose totals were created.
    """

    corrections: SqlCorrections
    amounts: Mapping[Hashable, types.Amounts]
    values: Mapping[Hashable, int]
    made: frozenset[Hashable]


def lock(refs: Sequence[Ref], alias: str) -> Locked:
    """Lock the totals of counters of one table until the transaction ends; return the values."""
    settle(refs, alias)
    corrections = registry.corrections(refs[0].table, alias)
    floors = [
        ref.key for ref in refs if ref.bounds.floor is not None and not ref.recipe.can.in_place
    ]
    amounts, made = corrections.hold([ref.key for ref in refs], floors)
    return Locked(corrections, amounts, _exact(refs, amounts, alias), made)


def foreseen_values(refs: Sequence[Ref], alias: str) -> dict[Ref, int]:
    """Return the present exact values of existing counters of one table. Locks nothing."""
    corrections = registry.corrections(refs[0].table, alias)
    keys = [ref.key for ref in refs]
    # A missing record has no value; any other counter without a row is zero.
    absent = dict.fromkeys(keys, types.Amounts(None, 0)) if corrections.inserts else {}
    values = _exact(refs, absent | dict(corrections.read(keys)), alias)
    known = (ref for ref in refs if ref.key in values)
    return {ref: values[ref.key] + pipeline.owed(ref, alias) for ref in known}


def _exact(
    refs: Iterable[Ref], amounts: Mapping[Hashable, types.Amounts], alias: str
) -> dict[Hashable, int]:
    """Return the exact values for amounts. Reads those of cached counters from Redis."""
    values = {key: amount.value for key, amount in amounts.items()}
    for strategy, keys in _outside(refs, alias):
        known = strategy.values(keys)
        values.update({key: known.get(key, 0) for key in keys if key in values})
    return values


def refuse_stale(ref: Ref, order: Order, before: int, audit: SqlAudit) -> None:
    """Refuse a decision that was made on another value.

    Raises:
        ValueChanged: the value isn't the expected one, and the change isn't only by increments
            that don't matter to ``by``; see `Order`.
    """
    if order.expected in (None, before):
        return
    if order.last is None or audit.last_of(ref.owner, ref.text) != order.last:
        raise errors.ValueChanged(key=ref.label, expected=order.expected, current=before)


def refuse(ref: Ref, order: Order, before: int) -> None:
    """Refuse an adjustment beyond the bounds, or one that needs a second person."""
    if ref.measure is not None and ref.measure.counts_rows:
        problem = f"the value of {ref.label} is its number of actors: count or forget an actor"
        raise errors.InvalidAdjustment(problem=problem)
    delta, limit = order.delta(before), ref.approve_above
    _refuse_number(ref, order, before, delta)
    if limit is not None and abs(delta) > limit and order.approver is None:
        raise errors.ApprovalRequired(key=ref.label, delta=delta, limit=limit)


def _refuse_number(ref: Ref, order: Order, before: int, delta: int) -> None:
    """Refuse a value beyond the bounds or quotas of the counter, or beyond 64 bits."""
    low, high = ref.table.capacity
    fits = low <= before + delta <= high and all(
        types.INT8[0] <= kept <= types.INT8[1] for kept in (before, delta)
    )
    bounds = types.Bounds(None, ref.bounds.ceiling) if order.allow_below_floor else ref.bounds
    if not bounds.admits(before, delta):
        raise refusal([(types.Delta(ref.key, delta, bounds), before)], lambda _: ref.label)
    if not fits:
        raise errors.CounterOverflow(key=ref.label, low=low, high=high)
    if delta > 0 and ref.measure is not None and ref.measure.guard:
        refuse_guarded(
            [Change(ref, delta).apart], registry.corrections(ref.table, ref.using), counted=False
        )


def _columns(plan: Planned, entries: Mapping[str, UUID]) -> dict[str, Any]:
    """Return the columns of an adjustment."""
    ref, order, before, delta, _ = plan
    second = order.approver or Person("", "")
    return {
        "field": ref.owner,
        "key": ref.text,
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
        "entry": entries.get(ref.text),
    }


def _tell_after_commit(row: models.CounterAdjustment, alias: str) -> None:
    # Django logs the name of a failing callback, and a partial has none.
    def tell() -> None:
        signals.counter_adjusted.send(sender=models.CounterAdjustment, adjustment=row, using=alias)

    transaction.on_commit(for_this_tenant(tell), using=alias, robust=True)


def _forget_after_commit(strategy: Outside, keys: Sequence[Hashable], alias: str) -> None:
    """Drop the totals of cached counters in Redis after the commit."""

    def forget_totals() -> None:
        strategy.forget(keys)

    transaction.on_commit(for_this_tenant(forget_totals), using=alias, robust=True)


def _outside(refs: Iterable[Ref], alias: str) -> Iterable[tuple[Outside, list[Hashable]]]:
    keys: dict[Outside, list[Hashable]] = {}
    for ref in refs:
        strategy = registry.outside(ref.recipe, ref.table, alias)
        if strategy:
            keys.setdefault(strategy, []).append(ref.key)
    return keys.items()


def strategy_of(ref: Ref, alias: str) -> Strategy:
    """Return the strategy that reads a counter."""
    return registry.strategy(ref.recipe, ref.table, alias)
