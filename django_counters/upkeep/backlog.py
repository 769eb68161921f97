"""What waits in each Redis, for how long, and whether that Redis can be trusted to keep it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from django.db import router

from django_counters.conf import TIMEOUT
from django_counters.exceptions import CounterUnavailable, InvalidConfiguration, OutcomeUnknown
from django_counters.models import Counter, CounterSource
from django_counters.registry import pending_in
from django_counters.stores.redis.addresses import is_other_cache
from django_counters.stores.redis.commands import Refused
from django_counters.tokens import moment_of
from django_counters.upkeep.sources import PATIENCE, declared

if TYPE_CHECKING:
    from django_counters.stores.redis.pending import RedisPending, Waiting

OLDEST_REDIS = (6, 2)
# What a server may answer to a question, besides an answer.
UNANSWERED = (CounterUnavailable, OutcomeUnknown, Refused)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in one Redis for one database.

    Attributes:
        generations: how many generations of increments wait.
        counters: how many counters are in them; one that is in two counts twice.
        since: when the oldest of them was begun, so that nothing waits longer; None where nothing
            waits.
    """

    generations: int
    counters: int
    since: datetime | None


def backlog(pending: RedisPending) -> Backlog:
    """Ask one Redis how much waits there.

    Raises:
        CounterUnavailable, OutcomeUnknown: it does not answer, or answers an error.
    """
    slots = pending.waiting()
    begun = [moment_of(UUID(generation)) for slot in slots for generation in _generations(slot)]
    return Backlog(
        generations=sum(slot.places + bool(slot.open) for slot in slots),
        counters=sum(slot.open + slot.sealed for slot in slots),
        since=min(begun, default=None),
    )


def _generations(slot: Waiting) -> Iterator[str]:
    """The oldest generation of those that are sealed, and the open one if it has something."""
    if slot.places:
        yield slot.oldest
    if slot.open:
        yield slot.generation


class Source(NamedTuple):
    """A Redis of cached counters.

    Attributes:
        name: as the database has it.
        pending: what waits there; None where it cannot be found.
        problem: why it cannot be found.
        is_declared: whether counters are declared to be cached there.
        was_flushed: whether a flush has seen it.
        declared_by: the namespaces and fields, where they were asked for.
    """

    name: str
    pending: RedisPending | None
    problem: str = ""
    is_declared: bool = True
    was_flushed: bool = False
    declared_by: tuple[str, ...] = ()


def known(using: str) -> Iterator[Source]:
    """Every Redis that is declared for a database, or was. Connects to none of them."""
    if not router.allow_migrate_model(using, Counter):
        return
    rows = CounterSource._base_manager.using(using).values_list("source", flat=True)
    flushed = set(rows)
    for cache in declared(using):
        source = _source(cache, using)
        stored = source.pending.source if source.pending else ""
        yield source._replace(was_flushed=stored in flushed)
        flushed.discard(stored)
    for name in sorted(flushed):
        yield _source(name, using)._replace(is_declared=False, was_flushed=True)


def _source(cache: str, using: str) -> Source:
    try:
        pending = pending_in(cache, max(PATIENCE, TIMEOUT), using)
    except InvalidConfiguration as error:
        # There may be a password in a URL.
        return Source("Redis" if "://" in cache else cache, None, error.problem)
    return Source(pending.name, pending)


def redises(aliases: Sequence[str]) -> list[Source]:
    """Every Redis that is declared for one of these databases, once. Connects to nothing."""
    caches = {cache: (using, by) for using in aliases for cache, by in declared(using).items()}
    return [
        _source(cache, using)._replace(declared_by=tuple(by))
        for cache, (using, by) in sorted(caches.items())
    ]


def misdeclared(sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    """E021 for each cache that cannot be counted in; W016 where it is one of another kind."""
    for source in sources:
        declared_by = ", ".join(source.declared_by)
        if source.problem and is_other_cache(source.name):
            yield "W016", f"{declared_by} cannot be counted here: {source.problem}"
        elif source.problem:
            yield "E021", f"{declared_by} cannot be cached there: {source.problem}"


def weaknesses(pending: RedisPending) -> Iterator[tuple[str, str]]:
    """W012 to W015: what may make this Redis lose increments. Of a cluster, one server is asked."""
    name = pending.name
    told: dict[str, str] = {}
    try:
        for section in ("server", "memory", "persistence"):
            told.update(pending.information(section))
    except UNANSWERED as error:
        yield "W014", f"The Redis {name} cannot be asked how it is set up: {reason_of(error)}."
        return
    policy = told.get("maxmemory_policy", "")
    if policy.startswith("allkeys"):
        yield "W012", f"The Redis {name} may throw increments away: its policy is {policy}."
    if told.get("aof_enabled") == "0":
        yield "W013", f"The Redis {name} forgets increments when it stops: it has no AOF."
    version = told.get("redis_version", "")
    if (number := re.match(r"(\d+)\.(\d+)", version)) and _pair(number) < OLDEST_REDIS:
        yield "W015", f"The Redis {name} is {version}: older than 6.2, and not tested."


def _pair(number: re.Match[str]) -> tuple[int, int]:
    return int(number[1]), int(number[2])


def reason_of(error: Exception) -> str:
    """Why a server did not answer."""
    text = error.reason if isinstance(error, CounterUnavailable) else str(error)
    return text.rstrip(".")
