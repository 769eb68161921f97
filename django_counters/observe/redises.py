"""What waits in each Redis, for how long, and whether that Redis can be trusted to keep it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from django_counters import clock
from django_counters.exceptions import CounterUnavailable, OutcomeUnknown
from django_counters.stores.redis.commands import Refused
from django_counters.tables import CounterBatch
from django_counters.tokens import moment_of
from django_counters.upkeep.sources import Source, known

if TYPE_CHECKING:
    from django_counters.stores.redis.pending import RedisPending

OLDEST_REDIS = (6, 2)
# A flush that runs lands everything far earlier.
LATE = timedelta(minutes=10)
# What a server may answer to a question, besides an answer.
UNANSWERED = (CounterUnavailable, OutcomeUnknown, Refused)


@dataclass(frozen=True, slots=True)
class Redis:
    """How one Redis of cached counters is.

    Attributes:
        source: which one.
        problem: why it does not say what waits; empty where it does, or was not asked yet.
        generations: how many generations of increments wait there; None where that is not known.
        counters: how many counters are in them, at most: one that is in two counts twice, and so
            do tokens and what is counted by period.
        lag: how old the oldest of them is, so that nothing waits longer; None where nothing waits.
        is_foreign: whether that belongs to another database.
        is_late: whether it waits for too long, and nothing has landed meanwhile.
        weak: the check and the message for all that may make it lose increments, if it is used.
        breaker: whether this process asks it: the worst of its servers. None where no server was
            asked yet.
    """

    source: Source
    problem: str = ""
    generations: int | None = None
    counters: int = 0
    lag: timedelta | None = None
    is_foreign: bool = False
    is_late: bool = False
    weak: tuple[tuple[str, str], ...] = ()
    breaker: Literal["closed", "half-open", "open"] | None = None

    @property
    def name(self) -> str:
        """As the database has it."""
        return self.source.name


def unasked(using: str) -> tuple[Redis, ...]:
    """Every Redis of a database, before it is asked."""
    return tuple(Redis(source, source.problem) for source in known(using))


def ask(redis: Redis, using: str, identity: Callable[[], str]) -> Redis:
    """Ask one Redis that can be found. ``identity``: that of the database.

    Raises:
        CounterUnavailable, OutcomeUnknown, Refused: it does not answer, or answers an error.
    """
    source, pending = redis.source, redis.source.pending
    assert pending is not None, "one that cannot be found is not asked"
    slots, owner = pending.waiting(), pending.owner()
    generations = sum(slot.places + bool(slot.open) for slot in slots)
    # The oldest generation of those that are sealed, and the open one if it has something.
    oldest = [slot.oldest for slot in slots if slot.places]
    oldest += [slot.generation for slot in slots if slot.open]
    lag = clock.utc() - min(moment_of(UUID(one)) for one in oldest) if oldest else None
    is_used = source.is_declared and (source.was_flushed or generations)
    return replace(
        redis,
        generations=generations,
        counters=sum(slot.open + slot.sealed for slot in slots),
        lag=lag,
        is_foreign=owner != "" and owner != identity(),
        is_late=lag is not None and lag > LATE and not _has_landed(pending.source, using),
        weak=tuple(weaknesses(pending)) if is_used else (),
    )


def _has_landed(source: str, using: str) -> bool:
    landed = CounterBatch._base_manager.using(using).filter(source=source)
    return landed.filter(applied_at__gt=clock.now() - LATE).exists()


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
    number = re.match(r"(\d+)\.(\d+)", version)
    if number and tuple(map(int, number.groups())) < OLDEST_REDIS:
        yield "W015", f"The Redis {name} is {version}: older than 6.2, and not tested."


def reason_of(error: Exception) -> str:
    """Why a server did not answer: the first line of what it or its driver says."""
    text = error.reason if isinstance(error, CounterUnavailable) else str(error)
    return text.strip().partition("\n")[0].rstrip(".")
