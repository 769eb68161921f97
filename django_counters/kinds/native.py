"""Cached counters for async code: Redis is asked from the event loop itself, not from a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from functools import partial

from asgiref.sync import AsyncToSync, sync_to_async
from django.db import router

from django_counters.conf import Recipe
from django_counters.kinds import number
from django_counters.kinds.applying import aapplied
from django_counters.kinds.collector import collector_of
from django_counters.kinds.registry import registry
from django_counters.kinds.tables import NAMED
from django_counters.models import Counter
from django_counters.strategies.base import Outside
from django_counters.strategies.ledger import Claimed
from django_counters.tokens import check_token
from django_counters.types import Batch, Delta, Reading, check_key, check_mapping
from django_counters.values import CountedMany, Result, told


def is_native(keys: object, using: str | None, *, writes: bool) -> bool:
    """Whether all of these are cached, and nothing of synchronous code comes into it."""
    if _within_synchronous_code() or not isinstance(keys, Iterable):
        # That code may have a transaction open, which only its own thread can see.
        return False
    find = router.db_for_write if writes else router.db_for_read
    if collector_of(using or find(Counter)) is not None:
        return False
    names = list(keys)
    return bool(names) and all(
        registry.policy(key).recipe.can.outside for key in names if isinstance(key, str)
    )


async def change(key: str, by: int, using: str | None, token: object) -> Result:
    """Change one number in one round trip and return its new value; ``by`` is a checked delta."""
    name = check_key(key)
    alias = using or router.db_for_write(Counter)
    delta = Delta(name, by, registry.policy(name).bounds)
    given = None if token is None else number.check_uuid_token(name, check_token(token))
    try:
        strategy = _outside(registry.policy(name).recipe, alias)
        values = await aapplied(strategy, Batch((delta,), given), alias)
    except Claimed:
        # It was used before the counter was cached: what for is in the database.
        return await sync_to_async(number.change)(name, by, None, None, using, None, token)
    return told(values[name])


async def change_many(deltas: object, sign: int, using: str | None) -> CountedMany:
    """Change many numbers, in one round trip where all are in one Redis."""
    alias = using or router.db_for_write(Counter)
    groups: dict[Outside, list[Delta]] = {}
    for delta in number.checked_deltas(check_mapping(deltas), sign):
        recipe = registry.policy(str(delta.key)).recipe
        groups.setdefault(_outside(recipe, alias), []).append(delta)
    if len(groups) != 1:
        return await sync_to_async(number.change_many)(deltas, sign, using)
    ((strategy, group),) = groups.items()
    values = await aapplied(strategy, Batch(tuple(group)), alias)
    return CountedMany({str(key): value for key, value in values.items()})


async def values_of(
    keys: Iterable[object], using: str | None, consistency: str, max_age: object
) -> dict[str, int]:
    """The values of many numbers."""
    names = number.check_keys(keys)
    found: dict[Hashable, int] = {}
    readers = partial(_outside, alias=using or router.db_for_write(Counter))
    for strategy, group, age in number.grouped(names, consistency, max_age, readers):
        found.update(await strategy.avalues(group, age))
    return {name: found.get(name, 0) for name in names}


async def read(key: object, consistency: str, using: str | None, max_age: object) -> Reading:
    """One value, and what is known of it."""
    name = check_key(key)
    alias = using or router.db_for_write(Counter)
    policy = registry.policy(name)
    age = policy.max_age if max_age is None else number.check_age(max_age)
    return await _outside(policy.recipe, alias).aread(name, consistency, age)


def _outside(recipe: Recipe, alias: str) -> Outside:
    strategy = registry.outside(recipe, NAMED, alias)
    assert strategy, f"is_native() looks for what is not in the database; {recipe.strategy} is"
    return strategy


def _within_synchronous_code() -> bool:
    """Whether a thread waits for this event loop, and runs what we would give to a thread."""
    waiting = getattr(AsyncToSync, "loop_thread_executors", None)
    current = getattr(getattr(AsyncToSync, "executors", None), "current", None)
    return waiting is None or current is not None or asyncio.get_running_loop() in waiting
