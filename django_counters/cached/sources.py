"""Every Redis that may hold increments of a database's counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from django_counters.exceptions import InvalidConfiguration
from django_counters.registry import registry
from django_counters.tables.standing import COUNTERS
from django_counters.upkeep.places import columns

if TYPE_CHECKING:
    from django_counters.cached.pending import RedisPending

# A flush waits longer than an increment.
PATIENCE = 5.0


class RedisSource(NamedTuple):
    """A Redis of cached counters.

    Attributes:
        name: as the database has it.
        pending: the amount that waits there; None where it cannot be found.
        problem: why it cannot be found.
        is_declared: whether counters are declared to be cached there.
        was_flushed: whether a flush has seen it.
        declared_by: the namespaces and fields that declare it.
    """

    name: str
    pending: RedisPending | None
    problem: str = ""
    is_declared: bool = True
    was_flushed: bool = False
    declared_by: tuple[str, ...] = ()


def sources(using: str) -> Iterator[RedisPending]:
    """The declaration, and what held something before and can still be found.

    Raises:
        InvalidConfiguration: the declaration is not a Redis.
    """
    for source in known(using):
        if source.pending:
            yield source.pending
        # Else it is no alias any more, or was a URL: only a person can find it.
        elif source.is_declared:
            raise InvalidConfiguration(problem=source.problem)


def known(using: str) -> Iterator[RedisSource]:
    """Every Redis that is declared for a database, or was. Connects to none of them."""
    if not COUNTERS.stands_in(using):
        return
    flushed = set(registry.batches(using).sources())
    for source in declared_sources(using):
        stored = source.pending.source if source.pending else ""
        yield source._replace(was_flushed=stored in flushed)
        flushed.discard(stored)
    for name in sorted(flushed):
        yield _source(name, using)._replace(is_declared=False, was_flushed=True)


def declared_sources(*aliases: str) -> list[RedisSource]:
    """Every Redis that is declared for one of these databases, once. Connects to nothing."""
    caches = {cache: (using, by) for using in aliases for cache, by in declared(using).items()}
    return [
        _source(cache, using)._replace(declared_by=tuple(by))
        for cache, (using, by) in sorted(caches.items())
    ]


def _source(cache: str, using: str) -> RedisSource:
    try:
        pending = registry.pending(cache, PATIENCE, using)
    except InvalidConfiguration as error:
        # There may be a password in a URL.
        return RedisSource("Redis" if "://" in cache else cache, None, error.problem)
    return RedisSource(pending.name, pending)


def declared(using: str) -> dict[str, list[str]]:
    """The caches of cached counters, and the namespaces and fields that declare each."""
    found: dict[str, list[str]] = {}
    for namespace, policy in registry.policies().items():
        if policy.recipe.can.outside:
            found.setdefault(policy.recipe.cache, []).append(f"COUNTERS[{namespace!r}]")
    for field in columns(using):
        recipe = field.declared().recipe
        if recipe.can.outside:
            found.setdefault(recipe.cache, []).append(f"{field.model._meta.label}.{field.name}")
    return dict(sorted(found.items()))
