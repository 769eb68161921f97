"""Numbers that have a key: makes a batch of what is asked and hands it to the strategy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import Error, router

from django_counters.conf import EXACT, Policy, Recipe
from django_counters.exceptions import (
    CounterError,
    CounterOverflow,
    InvalidKey,
    InvalidPeriod,
    OutcomeUnknown,
    UnsupportedConsistency,
    UnsupportedOption,
    UnsupportedToken,
)
from django_counters.kinds.applying import applied, tell
from django_counters.kinds.buffer import Buffer
from django_counters.kinds.collector import Collector, acollecting, collecting, collector_of
from django_counters.kinds.once import Call, once
from django_counters.kinds.registry import registry
from django_counters.kinds.tables import NAMED
from django_counters.models import Counter
from django_counters.strategies.base import Strategy
from django_counters.strategies.ledger import Claimed
from django_counters.tokens import Token, check_token
from django_counters.types import (
    INT8,
    Batch,
    Bounds,
    Delta,
    Reading,
    bounds_of_call,
    check_delta,
    check_key,
    check_mapping,
)
from django_counters.values import CountedMany, NewValues, Result, Unknown, told

_Reader = TypeVar("_Reader", bound=Strategy)


def change(
    key: object,
    by: int,
    floor: int | None,
    ceiling: int | None,
    using: str | None,
    route: object = None,
    token: object = None,
    immediately: bool = False,
) -> Result:
    """Change one number and return its new value; ``by`` is a checked delta."""
    name = check_key(key)
    policy = registry.policy(name)
    bounds = policy.bounds
    if floor is not None or ceiling is not None:
        bounds = bounds.stricter(bounds_of_call(floor, ceiling))
    if immediately:
        check_immediately(name, policy.recipe)
    alias = using or _writer()
    delta = Delta(name, by, bounds, route)
    if token is not None:
        return _change_once(delta, policy.recipe, check_token(token), alias, immediately)
    collector = None if immediately else collector_of(alias)
    if collector is not None:
        return told(_collect(collector, (delta,), alias)[name])
    batch = Batch((delta,), None, immediately)
    return told(applied(registry.strategy(policy.recipe, NAMED, alias), batch, alias)[name])


def check_immediately(what: str, recipe: Recipe) -> None:
    """Refuse to promise that a change outlives the transaction that it is part of."""
    if not recipe.can.cached:
        raise UnsupportedOption(option="immediately", key=what, strategy=recipe.strategy)


def apply_once(delta: Delta, recipe: Recipe, token: Token | None, alias: str) -> Result:
    """Change one number in the way of a recipe, whatever its namespace declares."""
    if token is not None:
        return _change_once(delta, recipe, token, alias)
    return told(applied(registry.strategy(recipe, NAMED, alias), Batch((delta,)), alias)[delta.key])


def _change_once(
    delta: Delta, recipe: Recipe, token: Token, alias: str, immediately: bool = False
) -> Result:
    """Change one number, unless the token was used; the value that its first use returned."""
    name = str(delta.key)
    strategy = registry.strategy(recipe, NAMED, alias)
    collector = collector_of(alias)
    if collector is not None:
        # What is owed to the counter comes first; the token is used now, and so is the change made.
        collector.settle([name], partial(apply_sums, alias))
    if strategy.keeps_tokens and token.uuid:
        try:
            return told(applied(strategy, Batch((delta,), token.uuid, immediately), alias)[name])
        except Claimed:
            pass
    if not strategy.claims_tokens:
        check_uuid_token(name, token)
    call = Call("", {name: delta.by})

    def work() -> dict[str, int | Unknown]:
        return {name: applied(strategy, Batch((delta,)), alias)[name]}

    return once(token, call, alias, work).values[name]


def check_uuid_token(what: str, token: Token) -> UUID:
    """Refuse a token that only a table of the database could remember."""
    if token.uuid is None:
        reason = "a cached counter remembers UUIDv7 tokens only; token_of() makes one of a text"
        raise UnsupportedToken(what=what, reason=reason)
    return token.uuid


def change_shard(
    key: object, by: int, route: object, using: str | None, token: object = None
) -> Result:
    """Change one number in its shards, whatever its namespace declares."""
    name = check_key(key)
    recipe = _shards_of(name)
    alias = using or _writer()
    # Shards are no way around a floor: what the namespace declares is asked, and refused.
    delta = Delta(name, by, _bounds(name), route)
    return apply_once(delta, recipe, None if token is None else check_token(token), alias)


def change_many(deltas: object, sign: int, using: str | None, token: object = None) -> CountedMany:
    """Change many numbers, all or none, and return their new values."""
    batch = checked_deltas(check_mapping(deltas), sign)
    if not batch:
        return CountedMany({})
    alias = using or _writer()
    if token is not None:
        return _change_many_once(batch, check_token(token), alias)
    collector = collector_of(alias)
    values = _apply(batch, alias) if collector is None else _collect(collector, batch, alias)
    return CountedMany(values)


def checked_deltas(deltas: Mapping[object, object], sign: int) -> tuple[Delta, ...]:
    """What is asked for many keys, with the bounds that their namespaces declare."""
    return tuple(
        Delta(name := check_key(key), check_delta(sign * check_delta(by)), _bounds(name))
        for key, by in deltas.items()
    )


def _change_many_once(batch: tuple[Delta, ...], token: Token, alias: str) -> CountedMany:
    for delta in batch:
        recipe = registry.policy(str(delta.key)).recipe
        if not registry.strategy(recipe, NAMED, alias).claims_tokens:
            reason = "several of them cannot be counted in one step"
            raise UnsupportedToken(what=str(delta.key), reason=reason)
    collector = collector_of(alias)
    if collector is not None:
        collector.settle([str(delta.key) for delta in batch], partial(apply_sums, alias))
    call = Call("", {str(delta.key): delta.by for delta in batch})
    answer = once(token, call, alias, lambda: _apply(batch, alias))
    return CountedMany(answer.values, replayed=answer.replayed)


def collect(using: str | None) -> AbstractContextManager[None]:
    """A block whose unbounded changes are merged and applied when it ends."""
    alias = using or _writer()
    begin = partial(_default(alias).all_or_nothing, own=False)
    return collecting(alias, begin, partial(apply_sums, alias))


def acollect(using: str | None) -> AbstractAsyncContextManager[None]:
    """`collect` for async code."""
    alias = using or _writer()
    return acollecting(alias, sync_to_async(partial(apply_sums, alias)))


def apply_sums(alias: str, sums: Mapping[str, int]) -> None:
    """Apply what was collected. Asks no bounds: those were asked at once."""
    low, high = INT8
    for key, by in sums.items():
        if not low <= by <= high:
            raise CounterOverflow(key=key, low=low, high=high)
    if sums:
        _apply(tuple(Delta(key, by) for key, by in sums.items()), alias)


def _collect(
    collector: Collector | Buffer, deltas: tuple[Delta, ...], alias: str
) -> dict[str, int | Unknown]:
    """Keep what has no bound for later, and make the rest now, after what is owed to it."""
    asked = tuple(delta for delta in deltas if delta.is_bounded)
    values: dict[str, int | Unknown] = {}
    if asked:
        collector.settle([str(delta.key) for delta in asked], partial(apply_sums, alias))
        values = _apply(asked, alias)
    for delta in deltas:
        if not delta.is_bounded:
            key = str(delta.key)
            collector.add(key, delta.by)
            values[key] = Unknown(key, Unknown.COLLECTED)
    return values


def _apply(deltas: tuple[Delta, ...], alias: str) -> dict[str, int | Unknown]:
    """Apply deltas of any namespaces, all or none; those that others wait for come last."""
    parts: dict[Recipe, list[Delta]] = {}
    for delta in deltas:
        recipe = registry.policy(str(delta.key)).recipe
        if recipe.combine:
            # What combines threads leaves batches alone.
            recipe = recipe._replace(combine=False)
        parts.setdefault(recipe, []).append(delta)
    strategies = {recipe: registry.strategy(recipe, NAMED, alias) for recipe in parts}
    if len(parts) == 1:
        ((_, strategy),) = strategies.items()
        return _by_text(applied(strategy, Batch(deltas), alias))
    if not any(recipe.can.joins for recipe in parts):
        return _apply_apart(parts, alias)
    # In one order for all writers, so that no two of them wait for each other.
    order = sorted(parts, key=lambda recipe: (strategies[recipe].holds, recipe))
    batches = [(strategies[recipe], Batch(tuple(parts[recipe]))) for recipe in order]
    with all_or_nothing(alias):
        found = [strategy.apply(batch) for strategy, batch in batches]
    # Not before all of them are applied: one that is refused takes the others with it.
    for (strategy, batch), values in zip(batches, found, strict=True):
        tell(strategy, batch, values, alias)
    return {key: value for values in found for key, value in _by_text(values).items()}


def _by_text(values: NewValues) -> dict[str, int | Unknown]:
    """The keys of named counters are texts."""
    return {str(key): value for key, value in values.items()}


def _apply_apart(parts: Mapping[Recipe, Sequence[Delta]], alias: str) -> dict[str, int | Unknown]:
    """Apply deltas that no transaction keeps together: each part is one step."""
    values: dict[str, int | Unknown] = {}
    for recipe in sorted(parts):
        try:
            strategy = registry.strategy(recipe, NAMED, alias)
            part = applied(strategy, Batch(tuple(parts[recipe])), alias)
        except (CounterError, Error) as error:
            if not values:
                raise
            # Any other error would say that nothing was counted.
            raise OutcomeUnknown(using=alias) from error
        values.update(_by_text(part))
    return values


def all_or_nothing(using: str) -> AbstractContextManager[None]:
    """A block whose changes are applied together or not at all."""
    return _default(using).all_or_nothing()


def value_of(key: object, using: str | None, consistency: str = "exact", age: object = None) -> int:
    """The value of one number; zero if it was never counted."""
    name = check_key(key)
    if consistency != "exact":
        return values_of([name], using, consistency, age)[name]
    value = _readable(registry.policy(name).recipe, using).value(name)
    collector = collector_of(using or _reader())
    return value + collector.owed(name) if collector else value


def values_of(
    keys: Iterable[object], using: str | None, consistency: str = "exact", max_age: object = None
) -> dict[str, int]:
    """The values of many keys of one moment; zero for what was never counted."""
    names = check_keys(keys)
    found: dict[Hashable, int] = {}
    readers = partial(_readable, using=using)
    for strategy, group, age in grouped(names, consistency, max_age, readers):
        found.update(strategy.values(group, age))
    return with_owed(names, found, using or _reader())


def check_keys(keys: Iterable[object]) -> list[str]:
    """The keys, each of them once."""
    if isinstance(keys, str):
        raise InvalidKey(key=keys, reason="it is one string, not several keys")
    return list(dict.fromkeys(check_key(key) for key in keys))


def with_owed(names: Iterable[str], found: Mapping[Hashable, int], alias: str) -> dict[str, int]:
    """Values of all names, with what is collected and not yet applied."""
    collector = collector_of(alias)
    return {name: found.get(name, 0) + (collector.owed(name) if collector else 0) for name in names}


def grouped(
    names: Iterable[str],
    consistency: str,
    max_age: object,
    reader_of: Callable[[Recipe], _Reader],
) -> Iterator[tuple[_Reader, list[str], float | None]]:
    """Who reads which keys, and how old what is cached may be: in as few steps as can be."""
    groups: dict[tuple[_Reader, float | None], list[str]] = {}
    for name in names:
        policy = registry.policy(name)
        age = age_of(policy, consistency, max_age)
        groups.setdefault((reader_of(policy.recipe), age), []).append(name)
    for (strategy, age), group in groups.items():
        yield strategy, group, age


def age_of(policy: Policy, consistency: str, max_age: object) -> float | None:
    """How old what is cached may be, in seconds; None where nothing may come from a cache."""
    if consistency not in ("exact", "cached"):
        raise UnsupportedConsistency(
            strategy=policy.recipe.strategy, consistency=consistency, offered="exact, cached"
        )
    if consistency == "exact" or not policy.recipe.can.cached:
        return None
    return policy.max_age if max_age is None else check_age(max_age)


def check_age(max_age: object) -> float:
    """A number of seconds, not below zero."""
    if not isinstance(max_age, bool) and isinstance(max_age, int | float) and 0 <= max_age < _YEAR:
        return float(max_age)
    raise InvalidPeriod(period=max_age, known="a number of seconds, not below zero")


def read(key: object, consistency: str, using: str | None, max_age: object = None) -> Reading:
    """One value, and what is known of it."""
    name = check_key(key)
    policy = registry.policy(name)
    age = policy.max_age if max_age is None else check_age(max_age)
    alias = reading_alias(policy.recipe, using)
    reading = registry.strategy(policy.recipe, NAMED, alias).read(name, consistency, age)
    collector = collector_of(using or _reader())
    owed = collector.owed(name) if collector else 0
    if not owed:
        return reading
    return replace(reading, value=reading.value + owed, pending=reading.pending + owed)


def _readable(recipe: Recipe, using: str | None) -> Strategy:
    """Who reads: all that keep everything in the database read it in the same way."""
    shown = recipe if recipe.can.outside else EXACT
    return registry.strategy(shown, NAMED, reading_alias(recipe, using))


def reading_alias(recipe: Recipe, using: str | None) -> str:
    """Where to read. A replica lags: what has landed would be in neither Redis nor the replica."""
    return using or (_writer() if recipe.can.outside else _reader())


_YEAR = 366 * 86_400


def _default(using: str) -> Strategy:
    """All strategies of named counters read the same tables in the same way."""
    return registry.strategy(EXACT, NAMED, using)


def _bounds(key: str) -> Bounds:
    return registry.policy(key).bounds


def _writer() -> str:
    return router.db_for_write(Counter)


def _reader() -> str:
    return router.db_for_read(Counter)


def _shards_of(key: str) -> Recipe:
    """What a namespace declares for its shards; the default where it declares another strategy."""
    recipe = registry.policy(key).recipe
    return recipe if recipe.can.shards else _SHARDED


_SHARDED = Recipe("sharded")
