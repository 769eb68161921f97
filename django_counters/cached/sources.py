"""Every Redis that may hold increments of a database's counters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django_counters.errors import InvalidConfiguration
from django_counters.redis.addresses import address_of, needs_redis
from django_counters.redis.keys import SlotKeys, space_of
from django_counters.registry import registry
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.session import part_of
from django_counters.tables.schema import COUNTERS
from django_counters.upkeep import caches

if TYPE_CHECKING:
    from django_counters.cached.pending import RedisPending

# At the end of the names that flushes write down.
_SPACE = re.compile("[0-9a-f]{12}")
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
    flushed = set(registry.kept(SqlBatches, using).sources())
    for source in declared_sources(using):
        stored = source.pending.source if source.pending else ""
        yield source._replace(was_flushed=stored in flushed)
        flushed.discard(stored)
    for name in sorted(flushed):
        yield _source(name, using)._replace(is_declared=False, was_flushed=True)


def declared_sources(*aliases: str) -> list[RedisSource]:
    """Every Redis that is declared for one of these databases, once. Connects to nothing."""
    found = {cache: (using, by) for using in aliases for cache, by in caches(using).items()}
    return [
        _source(cache, using)._replace(declared_by=tuple(by))
        for cache, (using, by) in sorted(found.items())
    ]


def _source(cache: str, using: str) -> RedisSource:
    try:
        pending = pending_of(cache, PATIENCE, using)
    except InvalidConfiguration as error:
        # There may be a password in a URL.
        return RedisSource("Redis" if "://" in cache else cache, None, error.problem)
    return RedisSource(pending.name, pending)


@dataclass(frozen=True)
class _Place:
    """What a `RedisPending` is kept under. ``part``: a database is another one in each test."""

    cache: str
    timeout: float
    part: str

    def __call__(self, using: str) -> RedisPending:
        """Make it. In a test it is cleared at the end."""
        made = pending_in(self.cache, self.timeout, using)
        registry.clear_later(made.clear)
        return made


def pending_of(cache: str, timeout: float, using: str) -> RedisPending:
    """The one object that this process keeps of `pending_in`."""
    return registry.kept(_Place(cache, timeout, part_of(using)), using)


def pending_in(cache: str, timeout: float, using: str) -> RedisPending:
    """The amount that waits in one Redis for one database. Opens no connection.

    Args:
        cache: an alias, or a URL; or the name that a flush has written down, which keeps what was
            counted under another prefix.
        timeout: seconds for each reply.
        using: the database.

    Raises:
        InvalidConfiguration: redis-py is not installed, or the cache is not a Redis.
    """
    with needs_redis("cached counters"):
        from django_counters.cached.pending import RedisPending
    place, known, space = cache.rpartition("#")
    if known and _SPACE.fullmatch(space):
        return RedisPending(address_of(place, {"timeout": timeout}), SlotKeys(using, space), cache)
    address = address_of(cache, {"timeout": timeout})
    return RedisPending(address, slots_of(using, address.prefix))


def slots_of(using: str, prefix: str) -> SlotKeys:
    """The keys of the amount that waits for a database, in a cache with a prefix."""
    return SlotKeys(using, space_of(part_of(using), prefix))
