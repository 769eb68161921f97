"""Adjusts counters: holds them, reads their exact values, changes them, and writes that down."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from django_counters import exceptions as errors
from django_counters.adjustments.models import CounterAdjustment
from django_counters.adjustments.orders import Order, Person
from django_counters.adjustments.sql import SqlAudit
from django_counters.registry import registry
from django_counters.signals import counter_adjusted
from django_counters.stores.sql.corrections import SqlCorrections
from django_counters.strategies.base import Outside, Strategy
from django_counters.strategies.periods import in_period
from django_counters.strategies.refusals import refusal, refuse_beyond_quotas
from django_counters.tenants import for_this_tenant
from django_counters.types import INT8, Amounts, Bounds, Delta
from django_counters.write import pipeline
from django_counters.write.change import Change, Ref


def settle(refs: Iterable[Ref], alias: str) -> None:
    """Apply what the caller has collected for the counters."""
    pipeline.settle([ref.text for ref in refs if not ref.owner], alias)


class Planned(NamedTuple):
    """The adjustment of one counter."""

    ref: Ref
    order: Order
    before: int
    delta: int


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
            plans.append(_planned(ref, order, met, alias, audit))
        except errors.CounterError as error:
            refused[ref] = error
    rows = _carried_out(plans, alias, audit) if plans else []
    in_vain = any(ref.key in met.made for ref in refused)
    return Corrected(rows, refused, in_vain)


def _planned(ref: Ref, order: Order, met: Met, alias: str, audit: SqlAudit) -> Planned:
    """The adjustment of a counter that is held, unless it is refused."""
    if ref.key not in met.values:
        raise errors.RecordMissing(key=ref.label)
    before = met.values[ref.key]
    delta = order.delta(before)
    refuse_stale(ref, order, before, audit)
    refuse(ref, order, before)
    if not ref.recipe.can.entries:
        corrections_of(ref, alias).check(ref.key, delta, met.total(ref))
    return Planned(ref, order, before, delta)


def _carried_out(
    plans: Sequence[Planned], alias: str, audit: SqlAudit
) -> Sequence[CounterAdjustment]:
    corrections, ledger = corrections_of(plans[0].ref, alias), registry.deltas(alias)
    entered = [plan for plan in plans if plan.delta and plan.ref.recipe.can.entries]
    credited = [plan for plan in plans if plan.delta and not plan.ref.recipe.can.entries]
    entries = ledger.adjust({plan.ref.text: plan.delta for plan in entered}) if entered else {}
    if credited:
        corrections.correct({plan.ref.key: plan.delta for plan in credited})
    # An adjustment counts in the period in which it is made, and has no tags.
    made = [Change(plan.ref, plan.delta).apart for plan in credited]
    corrections.add_cells(in_period(made, corrections))
    # A period may have begun since each was asked about, and have less room.
    refuse_beyond_quotas(made, corrections, counted=True)
    made = [Change(plan.ref, plan.delta).apart for plan in entered]
    ledger.add_cells(in_period(made, corrections))
    rows = audit.write(_columns(plan, entries.get(plan.ref.text)) for plan in plans)
    refresh_after_commit([plan.ref for plan in plans], alias)
    for row in rows:
        _tell_after_commit(row, alias)
    return rows


class Met(NamedTuple):
    """Counters whose totals are held: their amounts and their exact values.

    Missing records are in none of them. ``made``: the counters whose totals were created.
    """

    found: Mapping[Hashable, Amounts]
    values: Mapping[Hashable, int]
    made: frozenset[Hashable]

    def total(self, ref: Ref) -> int:
        """The total alone."""
        return self.found[ref.key].total or 0


def meet(refs: Sequence[Ref], alias: str) -> Met:
    """Hold the totals of counters of one table until the transaction ends, and read them."""
    settle(refs, alias)
    floors = [
        ref.key for ref in refs if ref.bounds.floor is not None and not ref.recipe.can.in_place
    ]
    found, made = corrections_of(refs[0], alias).hold([one.key for one in refs], floors)
    return Met(found, _exact(refs, found, alias), made)


def foreseen_values(refs: Sequence[Ref], alias: str) -> dict[Ref, int]:
    """The present exact values of existing counters of one table. Holds nothing."""
    corrections = corrections_of(refs[0], alias)
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
            [Change(ref, delta).apart], corrections_of(ref, ref.using), counted=False
        )


def _columns(plan: Planned, entry: UUID | None) -> dict[str, Any]:
    """The columns of an adjustment."""
    ref, order, before, delta = plan
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
        "entry": entry,
    }


def _tell_after_commit(row: CounterAdjustment, alias: str) -> None:
    # Django logs the name of a callback that fails, and a partial has none.
    def tell() -> None:
        counter_adjusted.send(sender=CounterAdjustment, adjustment=row, using=alias)

    transaction.on_commit(for_this_tenant(tell), using=alias, robust=True)


def refresh_after_commit(refs: Sequence[Ref], alias: str) -> None:
    """Let Redis forget the totals of cached counters."""
    for strategy, keys in _outside(refs, alias):
        _forget_after_commit(strategy, keys, alias)


def _forget_after_commit(strategy: Outside, keys: Sequence[Hashable], alias: str) -> None:
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


def corrections_of(ref: Ref, alias: str) -> SqlCorrections:
    """The store that changes its total."""
    return registry.corrections(ref.table, alias, ref.key_field)
