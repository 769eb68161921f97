"""How counters are adjusted: held, met with their exact values, changed, and written down."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from django_counters.adjustments.orders import Order, Person
from django_counters.exceptions import (
    ApprovalRequired,
    CounterError,
    CounterOverflow,
    RecordMissing,
    ValueChanged,
)
from django_counters.models import CounterAdjustment
from django_counters.registry import registry
from django_counters.signals import counter_adjusted
from django_counters.stores.sql.audit import SqlAudit
from django_counters.stores.sql.corrections import SqlCorrections
from django_counters.strategies.base import Outside, Strategy
from django_counters.strategies.refusals import refusal
from django_counters.types import INT8, Amounts, Bounds, Delta
from django_counters.write import pipeline
from django_counters.write.collector import collector_of
from django_counters.write.subject import Subject


def settle(subjects: Iterable[Subject], alias: str) -> None:
    """What is owed to a counter is part of the value that its adjustment meets."""
    pipeline.settle([subject.key for subject in subjects if not subject.field], alias)


def owed(subject: Subject, alias: str) -> int:
    """What the caller has collected for a counter, and not yet applied."""
    collector = None if subject.field else collector_of(alias)
    return collector.owed(subject.key) if collector else 0


class Planned(NamedTuple):
    """What becomes of one counter."""

    subject: Subject
    order: Order
    before: int
    delta: int


@dataclass(frozen=True, slots=True)
class Corrected:
    """What became of orders.

    Attributes:
        rows: what was written, in the order in which it was asked for.
        refused: what was not, and why.
        in_vain: whether totals were made for some that were refused.
    """

    rows: Sequence[CounterAdjustment]
    refused: Mapping[Subject, CounterError]
    in_vain: bool


def correct_many(orders: Sequence[tuple[Subject, Order]], alias: str, audit: SqlAudit) -> Corrected:
    """Adjust those of some counters of one table that can be, within `adjusting`.

    The totals are held first: what is read then are the values that the adjustments meet. How many
    statements it takes does not depend on how many counters there are, save for entries.
    """
    met = meet([subject for subject, _ in orders], alias)
    plans: list[Planned] = []
    refused: dict[Subject, CounterError] = {}
    for subject, order in orders:
        try:
            plans.append(_planned(subject, order, met, alias, audit))
        except CounterError as error:
            refused[subject] = error
    rows = _carried_out(plans, alias, audit) if plans else []
    in_vain = any(subject.native in met.made for subject in refused)
    return Corrected(rows, refused, in_vain)


def _planned(subject: Subject, order: Order, met: Met, alias: str, audit: SqlAudit) -> Planned:
    """What becomes of a counter that is held, if nothing forbids it."""
    if subject.native not in met.values:
        raise RecordMissing(key=subject.label)
    before = met.values[subject.native]
    delta = order.delta(before)
    refuse_stale(subject, order, before, audit)
    refuse(subject, order, before)
    if not subject.recipe.can.entries:
        corrections_of(subject, alias).check(subject.native, delta, met.total(subject))
    return Planned(subject, order, before, delta)


def _carried_out(
    plans: Sequence[Planned], alias: str, audit: SqlAudit
) -> Sequence[CounterAdjustment]:
    changes = [plan for plan in plans if plan.delta]
    entered: dict[str, int] = {}
    credited: dict[Hashable, int] = {}
    for one in changes:
        if one.subject.recipe.can.entries:
            entered[one.subject.key] = one.delta
        else:
            credited[one.subject.native] = one.delta
    entries = registry.deltas(alias).adjust(entered) if entered else {}
    if credited:
        corrections_of(plans[0].subject, alias).correct(credited)
    rows = audit.write(_columns(plan, entries.get(plan.subject.key)) for plan in plans)
    _after_commit([plan.subject for plan in plans], rows, alias)
    return rows


class Met(NamedTuple):
    """Counters whose totals are held: what each of those has, and its exact value.

    A record that is not there is in none of them. ``made``: those whose totals were made.
    """

    found: Mapping[Hashable, Amounts]
    values: Mapping[Hashable, int]
    made: frozenset[Hashable]

    def total(self, subject: Subject) -> int:
        """The total alone."""
        return self.found[subject.native].total or 0


def meet(subjects: Sequence[Subject], alias: str) -> Met:
    """Hold the totals of counters of one table until the transaction ends, and read them."""
    settle(subjects, alias)
    found, made = corrections_of(subjects[0], alias).hold([one.native for one in subjects])
    return Met(found, _exact(subjects, found, alias), made)


def foreseen_values(subjects: Sequence[Subject], alias: str) -> dict[Subject, int]:
    """The exact values of counters of one table that are there now; nothing is held."""
    corrections = corrections_of(subjects[0], alias)
    keys = [subject.native for subject in subjects]
    # A record that is not there has no value; whatever else has no row is zero.
    found = dict.fromkeys(keys, Amounts(None, 0)) if corrections.inserts else {}
    values = _exact(subjects, found | dict(corrections.read(keys)), alias)
    known = (subject for subject in subjects if subject.native in values)
    return {subject: values[subject.native] + owed(subject, alias) for subject in known}


def _exact(
    subjects: Iterable[Subject], found: Mapping[Hashable, Amounts], alias: str
) -> dict[Hashable, int]:
    """The exact values of what was found; those of cached counters are asked for in Redis."""
    values = {key: amounts.value for key, amounts in found.items()}
    for strategy, keys in _outside(subjects, alias):
        known = strategy.values(keys)
        values.update({key: known.get(key, 0) for key in keys if key in values})
    return values


def refuse_stale(subject: Subject, order: Order, before: int, audit: SqlAudit) -> None:
    """Refuse what was decided on by looking at another value.

    Raises:
        ValueChanged: the value is not the expected one, and that matters.
    """
    if order.expected in (None, before):
        return
    if order.last is None or audit.last_of(subject.field, subject.key) != order.last:
        raise ValueChanged(key=subject.label, expected=order.expected, current=before)


def refuse(subject: Subject, order: Order, before: int) -> None:
    """Refuse what is not admitted, or not by one person alone."""
    _refuse_number(subject, order, before, order.delta(before))
    _refuse_alone(subject, order, order.delta(before))


def _refuse_number(subject: Subject, order: Order, before: int, delta: int) -> None:
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


def _columns(plan: Planned, entry: UUID | None) -> dict[str, Any]:
    """What is written down of an adjustment."""
    subject, order, before, delta = plan
    second = order.approver or Person("", "")
    return {
        "field": subject.field,
        "key": subject.key,
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
        "entry": entry,
    }


def _after_commit(
    subjects: Sequence[Subject], rows: Sequence[CounterAdjustment], alias: str
) -> None:
    """Others may fail to hear of it; the adjustments are committed then."""
    refresh_after_commit(subjects, alias)
    for row in rows:
        _tell_after_commit(row, alias)


def _tell_after_commit(row: CounterAdjustment, alias: str) -> None:
    # Functions with a name: Django asks for it where one fails, and a partial has none.
    def tell() -> None:
        counter_adjusted.send(sender=CounterAdjustment, adjustment=row, using=alias)

    transaction.on_commit(tell, using=alias, robust=True)


def refresh_after_commit(subjects: Sequence[Subject], alias: str) -> None:
    """Let Redis forget the totals of counters, where it may know them."""
    for strategy, keys in _outside(subjects, alias):
        _forget_after_commit(strategy, keys, alias)


def _forget_after_commit(strategy: Outside, keys: Sequence[Hashable], alias: str) -> None:
    def forget_totals() -> None:
        strategy.forget(keys)

    transaction.on_commit(forget_totals, using=alias, robust=True)


def _outside(subjects: Iterable[Subject], alias: str) -> Iterable[tuple[Outside, list[Hashable]]]:
    found: dict[Outside, list[Hashable]] = {}
    for subject in subjects:
        strategy = registry.outside(subject.recipe, subject.table, alias)
        if strategy:
            found.setdefault(strategy, []).append(subject.native)
    return found.items()


def strategy_of(subject: Subject, alias: str) -> Strategy:
    """How a counter is read."""
    # What combines the calls of threads does not concern a correction.
    return registry.strategy(subject.recipe._replace(combine=False), subject.table, alias)


def corrections_of(subject: Subject, alias: str) -> SqlCorrections:
    """Who changes its total."""
    return registry.corrections(subject.table, alias, subject.key_field)
