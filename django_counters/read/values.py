"""Values of named counters: the total and all that is pending."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from django_counters.conf import EXACT, Policy
from django_counters.exceptions import InvalidKey, InvalidPeriod, UnsupportedConsistency
from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside, Strategy
from django_counters.strategies.declaring import Recipe
from django_counters.tables.standing import COUNTERS
from django_counters.types import Reading, check_key
from django_counters.write.collector import collector_of
from django_counters.write.pipeline import outside

_Reader = TypeVar("_Reader", bound=Strategy)
_YEAR = 366 * 86_400


def value_of(key: object, using: str | None, consistency: str = "exact", age: object = None) -> int:
    """The value of one number; zero if it was never counted."""
    name = check_key(key)
    if consistency != "exact":
        return values_of([name], using, consistency, age)[name]
    value = _readable(registry.policy(name).recipe, using).value(name)
    collector = collector_of(COUNTERS.reading(using))
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
    return with_owed(names, found, COUNTERS.reading(using))


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
    collector = collector_of(COUNTERS.reading(using))
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
    return using or (COUNTERS.writing() if recipe.can.outside else COUNTERS.reading())


async def avalues_of(
    keys: Iterable[object], using: str | None, consistency: str, max_age: object
) -> dict[str, int]:
    """`values_of` for async code, of counters that are not counted in the database."""
    names = check_keys(keys)
    found: dict[Hashable, int] = {}
    alias = COUNTERS.writing(using)

    def reader_of(recipe: Recipe) -> Outside:
        return outside(recipe, NAMED, alias)

    for strategy, group, age in grouped(names, consistency, max_age, reader_of):
        found.update(await strategy.avalues(group, age))
    return {name: found.get(name, 0) for name in names}


async def aread(key: object, consistency: str, using: str | None, max_age: object) -> Reading:
    """`read` for async code, of a counter that is not counted in the database."""
    name = check_key(key)
    alias = COUNTERS.writing(using)
    policy = registry.policy(name)
    age = policy.max_age if max_age is None else check_age(max_age)
    return await outside(policy.recipe, NAMED, alias).aread(name, consistency, age)
