"""Corrections: never silent, never an overwritten number, always with who and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from django_counters.exceptions import (
    ApprovalRequired,
    CounterError,
    CounterOverflow,
    InvalidAdjustment,
    ValueChanged,
)
from django_counters.kinds import number
from django_counters.kinds.buffer import Buffer
from django_counters.kinds.collector import collector_of
from django_counters.kinds.once import Call, once
from django_counters.kinds.registry import registry
from django_counters.kinds.subject import Subject
from django_counters.kinds.wording import shown, text_of
from django_counters.models import CounterAdjustment
from django_counters.models.adjustment import CASE_LENGTH, NAME_LENGTH, REASON_LENGTH
from django_counters.signals import counter_adjusted
from django_counters.stores.sql.audit import SqlAudit
from django_counters.stores.sql.corrections import SqlCorrections
from django_counters.strategies.base import Strategy
from django_counters.strategies.cached import Cached
from django_counters.strategies.refusals import refusal
from django_counters.tokens import Token, check_token
from django_counters.types import INT8, Amounts, Bounds, Delta, check_delta, check_integer


class Person(NamedTuple):
    """Who adjusts: a user, or whatever has a name."""

    id: str
    name: str

    def is_same(self, other: Person) -> bool:
        """Whether both are one: by their id, which outlives a name, or by their name."""
        return self.name == other.name or bool(self.id and self.id == other.id)


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for, and why. One of ``to`` and ``by`` is given.

    ``last``: the number of the last adjustment of the counter that was seen; zero: none. As long as
    it is the last one, a change may meet another value than the expected one: what others count
    meanwhile does not concern it.
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
    def amount(self) -> int:
        """The new value, or the change."""
        return self.by or 0 if self.to is None else self.to


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
    """What is asked for, checked.

    Raises:
        InvalidAdjustment: nobody could say later what was done, who did it, or why.
        InvalidDelta: a number is none.
    """
    if (to is None) == (by is None):
        raise InvalidAdjustment(problem="give either the new value (to) or the change (by)")
    who = person_of(actor, "an actor")
    second = None if approver is None else person_of(approver, "an approver")
    if second and second.is_same(who):
        raise InvalidAdjustment(problem="nobody approves an adjustment of their own")
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
    """A user, or a name of whatever else adjusts.

    Raises:
        InvalidAdjustment: it is neither, or a user without a row.
    """
    if isinstance(given, Person):
        return Person(given.id, text_of(given.name, what, NAME_LENGTH))
    if hasattr(given, "get_username"):
        user: Any = given
        if user.pk is None:
            raise InvalidAdjustment(problem=f"{what} is needed, and this user is not saved")
        # What a project logs in with need not be a text.
        return Person(str(user.pk), text_of(str(user.get_username()), what, NAME_LENGTH))
    return Person("", text_of(given, what, NAME_LENGTH))


@dataclass(frozen=True, slots=True)
class Preview:
    """What an adjustment would do now.

    Attributes:
        before: the exact value.
        after: what it would be.
        delta: by how much it would change.
        refusal: why it would be refused; None where it would not.
        needs_approval: whether it is refused because it needs a second person.
        last: the number of the last adjustment of the counter; zero where there is none.
    """

    before: int
    after: int
    delta: int
    refusal: CounterError | None
    needs_approval: bool
    last: int


def preview(
    subject: Subject,
    *,
    to: object = None,
    by: object = None,
    allow_below_floor: bool = False,
    using: str | None = None,
) -> Preview:
    """Say what an adjustment would do now; it changes nothing.

    Raises:
        InvalidDelta, InvalidAdjustment: no such adjustment can be asked for.
        RecordMissing: the record is not there (any more).
        CounterUnavailable: the value cannot be told.
    """
    order = order_of(to=to, by=by, reason="-", actor="-", allow_below_floor=allow_below_floor)
    return foreseen(subject, order, subject.alias(using))


def foreseen(subject: Subject, order: Order, alias: str) -> Preview:
    """What an order would do now."""
    # Asked for first: who adjusts meanwhile is not missed.
    last = SqlAudit(alias).last_of(subject.field, subject.key)
    before = _strategy(subject, alias).read(subject.native, "exact", 0.0).value
    before += _owed(subject, alias)
    delta = _delta(order, before)
    problem: CounterError | None = None
    needs_approval = False
    try:
        _refuse(subject, order, before, delta)
        _refuse_alone(subject, order, delta)
    except ApprovalRequired as error:
        problem, needs_approval = error, True
    except CounterError as error:
        problem = error
    return Preview(before, before + delta, delta, problem, needs_approval, last)


def adjust(
    subject: Subject,
    *,
    token: str | UUID | Token | None = None,
    using: str | None = None,
    **asked: Any,
) -> CounterAdjustment:
    """Adjust one counter; see `CounterManager.adjust`."""
    order, alias = order_of(**asked), subject.alias(using)
    given = None if token is None else check_token(token)
    settle_buffered([subject], alias)
    with adjusting(subject, alias) as audit:
        return (
            correct(subject, order, alias, audit)
            if given is None
            else _correct_once(subject, order, alias, audit, given)
        )


def settle_buffered(subjects: Iterable[Subject], alias: str) -> None:
    """Apply what asynchronous code has collected, which commits at once as that does."""
    if isinstance(collector_of(alias), Buffer):
        _settle(subjects, alias)


def _settle(subjects: Iterable[Subject], alias: str) -> None:
    """What is owed to a counter is part of the value that its adjustment meets."""
    collector = collector_of(alias)
    if collector is not None:
        keys = [subject.key for subject in subjects if not subject.field]
        collector.settle(keys, partial(number.apply_sums, alias))


def _owed(subject: Subject, alias: str) -> int:
    collector = None if subject.field else collector_of(alias)
    return collector.owed(subject.key) if collector else 0


@contextmanager
def adjusting(subject: Subject, alias: str) -> Iterator[SqlAudit]:
    """A transaction, or a savepoint in the caller's, that is alone in adjusting."""
    audit = SqlAudit(alias)
    with _corrections(subject, alias).correcting():
        audit.alone()
        yield audit


def one_of_many(subject: Subject, alias: str) -> AbstractContextManager[None]:
    """A savepoint within `adjusting`: what fails in it takes back itself alone."""
    return _corrections(subject, alias).all_or_nothing()


def correct(subject: Subject, order: Order, alias: str, audit: SqlAudit) -> CounterAdjustment:
    """Adjust one counter, within `adjusting`.

    The total is held first: what is read then is the value that the adjustment meets.
    """
    held, before = meet(subject, alias)
    delta = _delta(order, before)
    refuse_stale(subject, order, before, audit)
    _refuse(subject, order, before, delta)
    _refuse_alone(subject, order, delta)
    entry = None
    if delta and subject.strategy == "ledger":
        entry = registry.deltas(alias).adjust(subject.key, delta)
    elif delta:
        _corrections(subject, alias).correct(subject.native, delta, held.total or 0)
    row = _written(subject, order, before, delta, entry, audit)
    _after_commit(subject, row, alias)
    return row


def meet(subject: Subject, alias: str) -> tuple[Amounts, int]:
    """Hold the total of a counter until the transaction ends; what it is, and the exact value."""
    _settle([subject], alias)
    held = _corrections(subject, alias).hold(subject.native)
    if subject.strategy != "cached":
        return held, held.value
    return held, _strategy(subject, alias).value(subject.native)


def refuse_stale(subject: Subject, order: Order, before: int, audit: SqlAudit) -> None:
    """Refuse what was decided on by looking at another value.

    Raises:
        ValueChanged: the value is not the expected one, and that matters.
    """
    if order.expected in (None, before):
        return
    if order.last is None or audit.last_of(subject.field, subject.key) != order.last:
        raise ValueChanged(key=subject.label, expected=order.expected, current=before)


def _correct_once(
    subject: Subject, order: Order, alias: str, audit: SqlAudit, token: Token
) -> CounterAdjustment:
    """Adjust one counter unless the token was used; what its first use wrote."""
    how = "by" if order.to is None else "to"
    call = Call(f"adjust {how} {subject.field}", {subject.key: order.amount})
    rows: list[CounterAdjustment] = []

    def work() -> dict[str, int]:
        rows.append(correct(subject, order, alias, audit))
        return {subject.key: rows[0].number}

    answer = once(token, call, alias, work)
    if rows:
        return rows[0]
    earlier = audit.number(int(answer.values[subject.key]))
    earlier.replayed = True
    return earlier


def _delta(order: Order, before: int) -> int:
    return order.to - before if order.to is not None else order.by or 0


def _refuse(subject: Subject, order: Order, before: int, delta: int) -> None:
    """Refuse what the bounds of the counter, or 64 bits, do not admit."""
    low, high = subject.table.capacity
    fits = low <= before + delta <= high and all(
        INT8[0] <= kept <= INT8[1] for kept in (before, delta)
    )
    bounds = Bounds(None, subject.bounds.ceiling) if order.allow_below_floor else subject.bounds
    if not bounds.admits(before, delta):
        raise refusal([(Delta(subject.native, delta, bounds), before)], lambda _: subject.label)
    if not fits:
        raise CounterOverflow(key=subject.label, low=low, high=high)


def _refuse_alone(subject: Subject, order: Order, delta: int) -> None:
    limit = subject.approve_above
    if limit is not None and abs(delta) > limit and order.approver is None:
        raise ApprovalRequired(key=subject.label, delta=delta, limit=limit)


def _written(
    subject: Subject, order: Order, before: int, delta: int, entry: UUID | None, audit: SqlAudit
) -> CounterAdjustment:
    second = order.approver or Person("", "")
    return audit.write(
        field=subject.field,
        key=subject.key,
        before=before,
        after=before + delta,
        delta=delta,
        reason=order.reason,
        case=order.case,
        actor_id=order.actor.id,
        actor_name=order.actor.name,
        approver_id=second.id,
        approver_name=second.name,
        request_id=order.request_id,
        entry=entry,
    )


def _after_commit(subject: Subject, row: CounterAdjustment, alias: str) -> None:
    """Others may fail to hear of it; the adjustment is committed then."""

    # Functions with a name: Django asks for it where one fails, and a partial has none.
    def tell() -> None:
        counter_adjusted.send(sender=CounterAdjustment, adjustment=row, using=alias)

    refresh_after_commit(subject, alias)
    transaction.on_commit(tell, using=alias, robust=True)


def refresh_after_commit(subject: Subject, alias: str) -> None:
    """Let Redis forget the total of a counter, where it may know one."""
    strategy = _strategy(subject, alias)

    def forget_total() -> None:
        if isinstance(strategy, Cached):
            strategy.forget([subject.native])

    transaction.on_commit(forget_total, using=alias, robust=True)


def _strategy(subject: Subject, alias: str) -> Strategy:
    # What combines the calls of threads does not concern a correction.
    return registry.strategy(subject.recipe._replace(combine=False), subject.table, alias)


def _corrections(subject: Subject, alias: str) -> SqlCorrections:
    return registry.corrections(subject.table, alias, subject.key_field)
