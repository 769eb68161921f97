"""Numbers that have a key: makes a batch of what is asked and hands it to the strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import cast

from django.db import router

from django_counters.exceptions import InvalidDelta, InvalidKey
from django_counters.kinds.registry import registry
from django_counters.models import Counter
from django_counters.stores.sql.dialects import Table
from django_counters.strategies.base import Strategy
from django_counters.types import (
    UNBOUNDED,
    Batch,
    Bounds,
    Delta,
    Reading,
    check_delta,
    check_integer,
    check_key,
    check_mapping,
)

_COUNTERS = Table(
    name=Counter._meta.db_table,
    key=str(Counter._meta.get_field("key").column),
    value=str(Counter._meta.get_field("value").column),
    touched=Counter._meta.get_field("updated_at").column,
    inserts=True,
)


def bounds_of_call(floor: object, ceiling: object) -> Bounds:
    """The bounds that one call asks for."""
    if floor is None and ceiling is None:
        return UNBOUNDED
    for name, bound in (("floor", floor), ("ceiling", ceiling)):
        try:
            check_integer(0 if bound is None else bound)
        except InvalidDelta as error:
            raise InvalidDelta(delta=bound, reason=f"as a {name}, {error.reason}") from None
    return Bounds(cast("int | None", floor), cast("int | None", ceiling))


def change(key: object, by: int, floor: int | None, ceiling: int | None, using: str | None) -> int:
    """Change one number and return its new value; ``by`` is a checked delta."""
    name = check_key(key)
    policy = registry.policy(name)
    bounds = policy.bounds
    if floor is not None or ceiling is not None:
        bounds = bounds.stricter(bounds_of_call(floor, ceiling))
    strategy = registry.strategy(policy.strategy, _COUNTERS, using or router.db_for_write(Counter))
    return strategy.apply(Batch((Delta(name, by, bounds),)))[name]


def change_many(deltas: object, sign: int, using: str | None) -> dict[str, int]:
    """Change many numbers, all or none, and return their new values."""
    batch = Batch(
        tuple(
            Delta(name := check_key(key), check_delta(sign * check_delta(by)), _bounds(name))
            for key, by in check_mapping(deltas).items()
        )
    )
    if not batch.deltas:
        return {}
    return cast("dict[str, int]", dict(_strategy(using or _writer()).apply(batch)))


def all_or_nothing(using: str) -> AbstractContextManager[None]:
    """A block whose changes are applied together or not at all."""
    return _strategy(using).all_or_nothing()


def values_of(keys: Iterable[object], using: str | None) -> dict[str, int]:
    """The values of many keys of one moment; zero for what was never counted."""
    if isinstance(keys, str):
        raise InvalidKey(key=keys, reason="it is one string, not several keys")
    names = list(dict.fromkeys(check_key(key) for key in keys))
    if not names:
        return {}
    found = cast("Mapping[str, int]", _strategy(using or _reader()).values(names))
    return {name: found.get(name, 0) for name in names}


def read(key: object, consistency: str, using: str | None) -> Reading:
    """One value, and what is known of it."""
    return _strategy(using or _reader()).read(check_key(key), consistency)


def _strategy(using: str) -> Strategy:
    return registry.strategy("exact", _COUNTERS, using)


def _bounds(key: str) -> Bounds:
    return registry.policy(key).bounds


def _writer() -> str:
    return router.db_for_write(Counter)


def _reader() -> str:
    return router.db_for_read(Counter)
