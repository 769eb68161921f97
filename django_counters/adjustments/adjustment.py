"""Adjusts one counter, with who made it and why, or forgets it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django_counters.adjustments.correcting import (
    correct_many,
    corrections_of,
    meet,
    refresh_after_commit,
    refuse,
    settle,
    strategy_of,
)
from django_counters.adjustments.orders import Order, order_of
from django_counters.exceptions import ApprovalRequired, CounterError, CounterOverflow
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.stores.sql.audit import SqlAudit
from django_counters.tables import CounterAdjustment
from django_counters.tables.standing import COUNTERS
from django_counters.tokens import Token, check_token
from django_counters.types import INT8, UNBOUNDED, Batch
from django_counters.write.acollector import AsyncCollector
from django_counters.write.change import Change, Ref, named
from django_counters.write.collector import collector_of
from django_counters.write.once import Call, once
from django_counters.write.pipeline import owed


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
    """

    before: int
    after: int
    delta: int
    refusal: CounterError | None
    needs_approval: bool
    last: int


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
    return Preview(before, before + delta, delta, problem, needs_approval, last)


def adjust(ref: Ref, *, token: str | UUID | Token | None = None, **asked: Any) -> CounterAdjustment:
    """Adjust one counter; see `CounterManager.adjust`."""
    order, alias = order_of(**asked), ref.using
    given = None if token is None else check_token(token)
    settle_buffered([ref], alias)
    with adjusting(ref, alias) as audit:
        if given is None:
            return correct(ref, order, alias, audit)
        return _correct_once(ref, order, alias, audit, given)


def settle_buffered(refs: Iterable[Ref], alias: str) -> None:
    """Apply what asynchronous code has collected. It commits at once, as that code does."""
    if isinstance(collector_of(alias), AsyncCollector):
        settle(refs, alias)


@contextmanager
def adjusting(ref: Ref, alias: str) -> Iterator[SqlAudit]:
    """A transaction, or a savepoint, in which nobody else adjusts."""
    audit = SqlAudit(alias)
    with corrections_of(ref, alias).correcting():
        audit.alone()
        yield audit


def correct(ref: Ref, order: Order, alias: str, audit: SqlAudit) -> CounterAdjustment:
    """Adjust one counter, within `adjusting`."""
    done = correct_many([(ref, order)], alias, audit)
    for refusal in done.refused.values():
        raise refusal
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


def _forget_actors(ref: Ref, measure: Measure) -> int:
    """Set a counter of actors to zero: by as many as have their rows taken away.

    Whoever counts meanwhile has a row that is not seen here, and still counts.
    """
    actors, stored = registry.actors(ref.using), registry.measures(ref.using).ensure(measure)
    with actors.all_or_nothing():
        rows = actors.forget(stored.id, ref.key)
        value = registry.strategy(ref.recipe.for_batches, ref.table, ref.using).value(ref.key)
        gone = rows if measure.counts_actors else value
        if gone:
            delta = Change(ref, -gone).apart._replace(bounds=UNBOUNDED)
            registry.strategy(ref.recipe.for_batches, ref.table, ref.using).apply(Batch((delta,)))
    return gone


def forget(key: object, using: str | None) -> int:
    """Set a named counter to zero in one transaction, and return its last value.

    Increments that wait elsewhere, and entries of the ledger, stay there. The total is reduced by
    them, so that the sum is zero before and after a rollup.
    """
    ref = named(key, using)
    alias = ref.using
    settle_buffered([ref], alias)
    if ref.measure is not None and ref.measure.once is not None:
        return _forget_actors(ref, ref.measure)
    corrections = registry.corrections(ref.table, alias, None)
    with corrections.correcting():
        met = meet([ref], alias)
        value = met.values[ref.key]
        low, high = INT8
        if not low <= -value <= high:
            raise CounterOverflow(key=ref.label, low=low, high=high)
        delta = Change(ref, -value).delta
        if value and ref.recipe.can.entries:
            # Entries are its history, so this is another entry.
            ledger = registry.strategy(ref.recipe, ref.table, alias)
            ledger.apply(Batch((delta._replace(bounds=UNBOUNDED),)))
        elif value:
            corrections.check(ref.key, -value, met.total(ref))
            corrections.correct({ref.key: -value})
            corrections.add_cells([delta])
        # A later rollup needs the row, and so do entries.
        rows = COUNTERS.rows(alias).filter(key=ref.text)
        rows.filter(value=0, outside__isnull=True).delete()
        refresh_after_commit([ref], alias)
    return value
