"""The one way in: each change of a counter is made here, alone or together with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import Error

from django_counters.conf import EXACT
from django_counters.errors import (
    CounterError,
    CounterOverflow,
    OutcomeUnknown,
    UnsupportedMaximum,
    UnsupportedOption,
    UnsupportedToken,
)
from django_counters.event import PLAIN, Event
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Claimed, Outside, Raises, Strategy
from django_counters.strategies.declaring import Recipe
from django_counters.tables.schema import COUNTERS
from django_counters.tokens import Token, check_token
from django_counters.types import (
    INT8,
    Batch,
    Counted,
    CountedMany,
    Delta,
    NewValues,
    Peak,
    Raised,
    Result,
    Sums,
    Unknown,
    check_integer,
    check_key,
    check_mapping,
    deltas_of,
    namespace_of,
    result_of,
    sums_of,
)
from django_counters.write.changes import (
    Call,
    Change,
    Ref,
    aapplied,
    applied,
    change_on,
    check_event,
    is_spread,
    named,
    once,
    tell,
)
from django_counters.write.collector import (
    AsyncCollector,
    Collector,
    acollecting,
    collecting,
    collector_of,
)


def change(asked: Change) -> Result:
    """Make one change, in the caller's transaction where its strategy joins one."""
    ref = asked.ref
    if asked.immediately and not ref.recipe.can.cached and ref.intake is None:
        what = ref.owner or ref.text
        raise UnsupportedOption(option="immediately", key=what, strategy=ref.recipe.strategy)
    if not asked.by:
        check_event(ref, asked.event)
        return result_of(_present(ref)) if asked.token is None else _change_once(asked, asked.token)
    if ref.measure is not None and ref.measure.condition is not None:
        return change_on(ref.measure.condition, asked)
    waits = None if ref.intake is None else ref.intake.keep(asked)
    if waits is not None:
        return waits
    if asked.token is not None:
        return _change_once(asked, asked.token)
    collects = asked.collects and not asked.immediately
    collector = collector_of(ref.using) if collects else None
    if collector is not None:
        return result_of(_collect(collector, (asked.delta,), ref.using)[ref.text])
    batch = Batch((asked.delta,), None, asked.immediately)
    strategy = registry.strategy(ref.recipe, ref.table, ref.using)
    # As `applied` and `result_of`, without these calls: nearly every change comes here.
    values = strategy.apply(batch)
    if batch_applied.receivers:
        tell(strategy, batch, values, ref.using, ref.table.label)
    value = values[ref.key]
    return Counted(value) if type(value) is int else result_of(value)


def _present(ref: Ref) -> int | Unknown:
    """The value that a change by zero leaves, where the database alone knows it."""
    if ref.intake is not None or ref.recipe.can.outside:
        return Unknown(ref.text, Unknown.UNCHANGED)
    return _stored(ref) + owed(ref, ref.using)


def _stored(ref: Ref) -> int:
    return registry.strategy(ref.recipe, ref.table, ref.using).read(ref.key, "exact", 0.0).value


async def achange(asked: Change) -> Result:
    """`change` for async code, for strategies outside of the database; without a thread."""
    ref = asked.ref
    token = None if asked.token is None else _uuid(ref, asked.token)
    await _know(ref.measure, ref.using)
    try:
        values = await aapplied(
            outside(ref.recipe, ref.table, ref.using), Batch((asked.delta,), token), ref.using
        )
    except Claimed:
        # It was used before the counter was cached: what for is in the database.
        return await sync_to_async(change)(asked)
    return result_of(values[ref.key])


async def _know(measure: Measure | None, using: str) -> None:
    """Ask the database for a measure once: what follows asks nothing of it."""
    measures = registry.measures(using)
    if measure is not None and not measures.knows(measure):
        await sync_to_async(measures.ensure)(measure)


def outside(recipe: Recipe, table: Table, using: str) -> Outside:
    """The strategy of counters that are not counted in the database."""
    strategy = registry.outside(recipe, table, using)
    assert strategy, f"{recipe.strategy} is counted in the database"
    return strategy


def _change_once(asked: Change, token: Token) -> Result:
    """Make one change, unless the token was used; what its first use returned."""
    ref = asked.ref
    text, label = ref.text, ref.owner
    strategy = registry.strategy(ref.recipe, ref.table, ref.using)
    if ref.owner and not strategy.claims_tokens:
        reason = "what Redis loses could not be told from what was never there"
        raise UnsupportedToken(what=f"{label}, which is cached,", reason=reason)
    if not ref.owner:
        # Its collected increments come first; the token is used now, and so is the change made.
        settle([text], ref.using)
    told = asked.event.text
    # Zero is no entry of a ledger. Others keep neither tags nor a moment: those claim the token.
    is_entry = bool(asked.by) and not told
    if strategy.keeps_tokens and token.uuid and (is_entry or not strategy.claims_tokens):
        try:
            delta = asked.delta if asked.by else Delta(ref.key, 0, told=told)
            batch = Batch((delta,), token.uuid, asked.immediately)
            return result_of(applied(strategy, batch, ref.using)[ref.key])
        except Claimed:
            pass
    if not strategy.claims_tokens:
        _uuid(ref, token)

    def work() -> dict[str, int | Unknown]:
        if not asked.by:
            return {text: _stored(ref)}
        # Asked for here: of a repeated call no moment and no tag is looked at.
        return {text: applied(strategy, Batch((asked.delta,)), ref.using, label)[ref.key]}

    return once(token, Call(label, {text: asked.by}, told), ref.using, work).values[text]


def _uuid(ref: Ref, token: Token) -> UUID:
    """Refuse a token that only a table of the database could remember."""
    if token.uuid is None:
        reason = "a cached counter remembers UUIDv7 tokens only; token_of() makes one of a text"
        raise UnsupportedToken(what=ref.text, reason=reason)
    return token.uuid


def negated(deltas: object) -> dict[str, int]:
    """The changes that subtract what these add."""
    return {check_key(key): -check_integer(by) for key, by in check_mapping(deltas).items()}


def change_many(
    deltas: object, using: str | None, token: object = None, event: Event = PLAIN
) -> CountedMany:
    """Change many named counters, all or none."""
    alias = COUNTERS.writing(using)
    batch = _checked(deltas, event, alias)
    idle = [named(key, alias) for key, by in check_mapping(deltas).items() if not by]
    if not batch and not idle:
        return CountedMany({})
    for ref in idle:
        check_event(ref, event)
    if token is not None:
        return _change_many_once(batch, idle, check_token(token), event.text, alias)
    rest = tuple(delta for delta in batch if registry.policy(str(delta.key)).intake is None)
    # What may be refused comes first.
    values = _made(rest, alias) if rest else {}
    if len(rest) < len(batch):
        values = _kept(batch, values, alias)
    return CountedMany({**values, **{ref.text: _present(ref) for ref in idle}})


def _made(deltas: tuple[Delta, ...], using: str) -> dict[str, int | Unknown]:
    """Make changes, in a collector where one is open."""
    collector = collector_of(using)
    return _apply(deltas, using) if collector is None else _collect(collector, deltas, using)


def _kept(
    batch: Sequence[Delta], made: Mapping[str, int | Unknown], using: str
) -> dict[str, int | Unknown]:
    """Give all that was not made to intakes; changes that they don't take are made as well."""
    found, past = dict(made), list[Delta]()
    for delta in batch:
        if str(delta.key) not in made:
            ref = named(delta.key, using)
            waits = ref.intake.keep_delta(ref, delta) if ref.intake is not None else None
            if waits is None:
                past.append(delta)
            else:
                found[str(delta.key)] = waits
    try:
        found.update(_made(tuple(past), using) if past else {})
    except (CounterError, Error) as error:
        if not found:
            raise
        # Any other error would say that nothing was counted.
        raise OutcomeUnknown(using=using) from error
    return {str(delta.key): found[str(delta.key)] for delta in batch}


async def achange_many(deltas: object, using: str | None, event: Event) -> CountedMany:
    """`change_many` for async code, for strategies outside of the database."""
    alias = COUNTERS.writing(using)
    groups: dict[Outside, list[Delta]] = {}
    for name in {namespace_of(str(key)) for key in check_mapping(deltas)}:
        await _know(registry.policy(f"{name}:").measure, alias)
    batch = _checked(deltas, event, alias)
    for delta in batch:
        recipe = registry.policy(str(delta.key)).recipe
        groups.setdefault(outside(recipe, NAMED, alias), []).append(delta)
    if len(groups) != 1 or len(batch) < len(check_mapping(deltas)):
        return await sync_to_async(change_many)(deltas, using, None, event)
    ((strategy, group),) = groups.items()
    return CountedMany(_by_text(await aapplied(strategy, Batch(tuple(group)), alias)))


def _checked(deltas: object, event: Event, using: str) -> tuple[Delta, ...]:
    """The deltas for many keys, with the declarations of their namespaces; none for zeros."""
    checked = {check_key(key): check_integer(by) for key, by in check_mapping(deltas).items()}
    return tuple(_delta(key, by, event, using) for key, by in checked.items() if by)


def _delta(key: str, by: int, event: Event, using: str) -> Delta:
    """The delta for one of many keys."""
    policy = registry.policy(key)
    if policy.measure is None and event is PLAIN:
        # The common case: this runs once for each key.
        return Delta(key, by, policy.bounds)
    return Change(named(key, using), by, event=event).delta


def _change_many_once(
    batch: tuple[Delta, ...], idle: Sequence[Ref], token: Token, told: str, using: str
) -> CountedMany:
    call = Call("", {**{str(d.key): d.by for d in batch}, **{ref.text: 0 for ref in idle}}, told)
    for key in call.deltas:
        recipe = registry.policy(key).recipe
        if not registry.strategy(recipe, NAMED, using).claims_tokens:
            reason = "several of them cannot be counted in one step"
            raise UnsupportedToken(what=key, reason=reason)
    settle(list(call.deltas), using)

    def work() -> dict[str, int | Unknown]:
        made = _apply(batch, using) if batch else {}
        return {**made, **{ref.text: _stored(ref) for ref in idle}}

    answer = once(token, call, using, work)
    return CountedMany(answer.values, replayed=answer.replayed)


def collect(using: str | None) -> AbstractContextManager[None]:
    """A block whose unbounded changes are merged and applied when it ends."""
    alias = COUNTERS.writing(using)
    begin = partial(_default(alias).all_or_nothing, own=False)
    return collecting(alias, begin, partial(_apply_sums, alias))


def acollect(using: str | None) -> AbstractAsyncContextManager[None]:
    """`collect` for async code."""
    alias = COUNTERS.writing(using)
    return acollecting(alias, sync_to_async(partial(_apply_sums, alias)))


def settle(names: Sequence[str], using: str) -> None:
    """Apply what a collector owes to some counters."""
    collector = collector_of(using)
    if collector is not None:
        collector.settle(names, partial(_apply_sums, using))


def owed(ref: Ref, using: str) -> int:
    """The increments that a collector has for a counter."""
    collector = None if ref.owner else collector_of(using)
    return collector.owed(ref.text) if collector else 0


def _apply_sums(using: str, sums: Sums[str]) -> None:
    """Apply what was collected. Asks no bounds: those were asked at once."""
    low, high = INT8
    for (key, _), by in sums.items():
        if not low <= by <= high:
            raise CounterOverflow(key=key, low=low, high=high)
    if sums:
        _apply(deltas_of(sums), using)


def _collect(
    collector: Collector | AsyncCollector, deltas: tuple[Delta, ...], using: str
) -> dict[str, int | Unknown]:
    """Keep what has no bound for later, and make the rest now, after what is owed to it."""
    asked = tuple(delta for delta in deltas if delta.is_bounded)
    values: dict[str, int | Unknown] = {}
    if asked:
        collector.settle([str(delta.key) for delta in asked], partial(_apply_sums, using))
        values = _apply(asked, using)
    for delta in deltas:
        if not delta.is_bounded:
            key = str(delta.key)
            collector.add(key, sums_of(delta))
            values[key] = Unknown(key, Unknown.COLLECTED)
    return values


def _apply(deltas: tuple[Delta, ...], using: str) -> dict[str, int | Unknown]:
    """Apply deltas of any namespaces, all or none; those that others wait for come last."""
    parts: dict[Recipe, list[Delta]] = {}
    for delta in deltas:
        recipe = registry.policy(str(delta.key)).recipe
        parts.setdefault(recipe, []).append(delta)
    strategies = {recipe: registry.strategy(recipe, NAMED, using) for recipe in parts}
    if len(parts) == 1:
        ((_, strategy),) = strategies.items()
        return _by_text(applied(strategy, Batch(deltas), using))
    if not any(recipe.can.joins for recipe in parts):
        return _apply_apart(parts, using)
    # In one order for all writers, so that no two of them wait for each other.
    order = sorted(parts, key=lambda recipe: (strategies[recipe].holds, recipe.rank))
    batches = [(strategies[recipe], Batch(tuple(parts[recipe]))) for recipe in order]
    with all_or_nothing(using):
        found = [strategy.apply(batch) for strategy, batch in batches]
    # Not before all of them are applied: one that is refused takes the others with it.
    for (strategy, batch), values in zip(batches, found, strict=True):
        tell(strategy, batch, values, using)
    return {key: value for values in found for key, value in _by_text(values).items()}


def _apply_apart(parts: Mapping[Recipe, Sequence[Delta]], using: str) -> dict[str, int | Unknown]:
    """Apply deltas that no transaction keeps together: each part is one step."""
    values: dict[str, int | Unknown] = {}
    for recipe in sorted(parts, key=lambda recipe: recipe.rank):
        try:
            strategy = registry.strategy(recipe, NAMED, using)
            part = applied(strategy, Batch(tuple(parts[recipe])), using)
        except (CounterError, Error) as error:
            if not values:
                raise
            # Any other error would say that nothing was counted.
            raise OutcomeUnknown(using=using) from error
        values.update(_by_text(part))
    return values


def _by_text(values: NewValues) -> dict[str, int | Unknown]:
    """The keys of named counters are texts."""
    return {str(key): value for key, value in values.items()}


def all_or_nothing(using: str) -> AbstractContextManager[None]:
    """A block whose changes are applied together or not at all."""
    return _default(using).all_or_nothing()


def _default(using: str) -> Strategy:
    """All strategies of named counters read the same tables in the same way."""
    return registry.strategy(EXACT, NAMED, using)


# Maxima: a counter is raised to a number. Repeated, that changes nothing.


def maximum(ref: Ref, number: object) -> Result:
    """Raise a counter to ``number``; see `CounterManager.maximum`."""
    peak = Peak(ref.key, check_integer(number), ref.bounds)
    _refuse(ref)
    if not ref.owner:
        # Its collected increments come first.
        settle([ref.text], ref.using)
    found: Any = registry.strategy(ref.recipe, ref.table, ref.using)
    strategy: Raises = found
    heard = partial(_tell, strategy, ref)
    raised = strategy.maximum(peak, heard)
    if isinstance(raised, Unknown):
        return raised
    heard(raised)
    return Counted(raised.value)


def _refuse(ref: Ref) -> None:
    if not ref.recipe.can.raises:
        reason = f"{ref.strategy} counters cannot promise it"
        raise UnsupportedMaximum(key=ref.label, reason=reason)
    if ref.intake is not None:
        raise UnsupportedMaximum(key=ref.label, reason=ref.intake.reason)
    if is_spread(ref):
        raise UnsupportedMaximum(key=ref.label, reason="other databases count it, too")
    if ref.measure is not None and ref.measure.condition is not None:
        raise UnsupportedMaximum(key=ref.label, reason=ref.measure.condition.reason)
    if ref.measure is not None:
        reason = "it is counted by period, and a period has what was added, not the largest number"
        raise UnsupportedMaximum(key=ref.label, reason=reason)


def _tell(strategy: Raises, ref: Ref, raised: Raised) -> None:
    """Tell who listens what was added, if anything was."""
    if raised.by and batch_applied.receivers:
        batch = Batch((Delta(ref.key, raised.by, ref.bounds),))
        tell(strategy, batch, {ref.key: raised.value}, ref.using, ref.table.label)
