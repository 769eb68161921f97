"""Values of named counters: the total and all that is pending."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypedDict, TypeVar

from django_counters.conf import EXACT, Policy
from django_counters.errors import (
    Contention,
    InvalidKey,
    InvalidPeriod,
    UnsupportedConsistency,
    UnsupportedReading,
)
from django_counters.features import Reader
from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Intake, Outside, PendingAmounts
from django_counters.tables.core import COUNTERS
from django_counters.types import Reading, check_key
from django_counters.write.collector import collector_of
from django_counters.write.pipeline import outside

_Reader = TypeVar("_Reader", bound=Reader)
Values = dict[Hashable, int]


class ReadOptions(TypedDict, total=False):
    """Keyword arguments of `CounterManager.read` and `CounterManager.values_of`."""

    consistency: str
    max_age: float | None
    using: str | None


_YEAR = 366 * 86_400
# What an intake has is landed once in an interval, and a read that meets that is repeated.
ATTEMPTS = 20


def value_of(
    key: object,
    using: str | None,
    consistency: str = "exact",
    max_age: object = None,
) -> int:
    """The value of one number; zero if it was never counted."""
    name = check_key(key)
    if consistency != "exact":
        return values_of([name], using, consistency, max_age)[name]
    policy = registry.policy(name)
    if policy.intake is not None:
        return values_of([name], using)[name]
    value = _readable(policy, using).value(name)
    collector = collector_of(COUNTERS.reading(using))
    return value + collector.owed(name) if collector else value


def values_of(
    keys: Iterable[object],
    using: str | None,
    consistency: str = "exact",
    max_age: object = None,
) -> dict[str, int]:
    """The values of many keys of one moment; zero for counters that were never counted."""
    names = check_keys(keys)
    readers = partial(_readable, using=using)

    def read_some(some: Sequence[str]) -> dict[Hashable, int]:
        found: dict[Hashable, int] = {}
        for strategy, group, age in grouped(some, consistency, max_age, readers):
            found.update(strategy.values(group, age))
        return found

    return with_pending(names, using, read_some)


def check_keys(keys: Iterable[object]) -> list[str]:
    """The keys, each of them once."""
    if isinstance(keys, str):
        raise InvalidKey(key=keys, reason="it is one string, not several keys")
    return list(dict.fromkeys(check_key(key) for key in keys))


def with_pending(
    names: Sequence[str],
    using: str | None,
    read_some: Callable[[Sequence[str]], Values],
) -> dict[str, int]:
    """Read values, and add what this process has not counted yet, in intakes and in a collector.

    A strategy whose increments wait elsewhere, in rows or in Redis, reads them itself: only so are
    they of one moment with its total.

    Raises:
        Contention: amounts of an intake landed during each of many reads.
    """
    found: Values = {}
    left = names
    for _ in range(ATTEMPTS):
        before = _pending(left, using)
        found.update(read_some(left))
        left = []
        for one in before:
            waits, again = one.after()
            for key, by in waits.items():
                found[key] = found.get(key, 0) + by
            left.extend(again)
        if not left:
            return with_owed(names, found, COUNTERS.reading(using))
    raise Contention(key=left[0], attempts=ATTEMPTS)


def _pending(names: Iterable[str], using: str | None) -> list[PendingAmounts]:
    """Return what the intakes of this process have of counters, before their values are read."""
    if all(policy.intake is None for policy in registry.policies().values()):
        return []
    groups: dict[Intake, list[str]] = {}
    for name in names:
        intake = registry.policy(name).intake
        if intake is not None:
            groups.setdefault(intake, []).append(name)
    alias = COUNTERS.writing(using)
    found = (intake.pending(keys, alias) for intake, keys in groups.items())
    return [one for one in found if one is not None]


def with_owed(names: Iterable[str], found: Mapping[Hashable, int], alias: str) -> dict[str, int]:
    """Values of all names, with what is collected and not yet applied."""
    collector = collector_of(alias)
    return {name: found.get(name, 0) + (collector.owed(name) if collector else 0) for name in names}


def grouped(
    names: Iterable[str],
    consistency: str,
    max_age: object,
    reader_of: Callable[[Policy], _Reader],
) -> Iterator[tuple[_Reader, list[str], float | None]]:
    """The readers and their keys, and how old cached values may be: in as few steps as possible."""
    groups: dict[tuple[_Reader, float | None], list[str]] = {}
    for name in names:
        policy = registry.policy(name)
        age = age_of(policy, consistency, max_age)
        groups.setdefault((reader_of(policy), age), []).append(name)
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


def read(
    key: object, using: str | None, consistency: str = "exact", max_age: object = None
) -> Reading:
    """One value, and the known details of it."""
    name = check_key(key)
    policy = registry.policy(name)
    if policy.spread is not None:
        reason = "other databases count it, too, and a reading is of one database. Call value()"
        raise UnsupportedReading(key=name, reason=reason)
    age = policy.max_age if max_age is None else check_age(max_age)
    strategy = registry.strategy(policy.recipe, NAMED, reading_alias(policy, using))
    readings: list[Reading] = []

    def read_it(_: Sequence[str]) -> dict[Hashable, int]:
        readings.append(strategy.read(name, consistency, age))
        return {}

    owed = with_pending([name], using, read_it)[name]
    reading = readings[-1]
    if not owed:
        return reading
    return replace(reading, value=reading.value + owed, pending=reading.pending + owed)


def _readable(policy: Policy, using: str | None) -> Reader:
    """The reader: all strategies that keep everything in the database read it in the same way."""
    outside = policy.recipe if policy.recipe.can.outside else None
    if policy.spread is not None:
        return policy.spread(policy, reading_alias(policy, using))
    return registry.strategy(outside or EXACT, NAMED, reading_alias(policy, using))


def reading_alias(policy: Policy, using: str | None) -> str:
    """Where to read. A replica lags: landed increments would be in neither place."""
    waits = policy.recipe.can.outside or policy.intake is not None
    return using or (COUNTERS.writing() if waits else COUNTERS.reading())


async def avalues_of(
    keys: Iterable[object],
    using: str | None,
    consistency: str = "exact",
    max_age: object = None,
) -> dict[str, int]:
    """`values_of` for async code, of counters that are not counted in the database."""
    names = check_keys(keys)
    found: dict[Hashable, int] = {}
    alias = COUNTERS.writing(using)

    def reader_of(policy: Policy) -> Outside:
        return outside(policy.recipe, NAMED, alias)

    for strategy, group, age in grouped(names, consistency, max_age, reader_of):
        found.update(await strategy.avalues(group, age))
    return {name: found.get(name, 0) for name in names}


async def aread(
    key: object, using: str | None, consistency: str = "exact", max_age: object = None
) -> Reading:
    """`read` for async code, of a counter that is not counted in the database."""
    name = check_key(key)
    alias = COUNTERS.writing(using)
    policy = registry.policy(name)
    age = policy.max_age if max_age is None else check_age(max_age)
    return await outside(policy.recipe, NAMED, alias).aread(name, consistency, age)
