"""The state of each Redis of cached counters: what waits there, and why it may lose increments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext as _

from django_counters import clock
from django_counters.cached.sources import RedisSource, known
from django_counters.features import Finding
from django_counters.metrics.facts import UNANSWERED, Away, attempt, reason_of, says_more, wrong
from django_counters.stores.sql.session import identity_of
from django_counters.tables import CounterBatch
from django_counters.tokens import moment_of

if TYPE_CHECKING:
    from django_counters.cached.pending import RedisPending

OLDEST_REDIS = (6, 2)


@dataclass(frozen=True, slots=True)
class Redis:
    """The state of one Redis of cached counters.

    Attributes:
        source: which one.
        problem: why it did not answer; empty if it did, or was not asked yet.
        generations: how many generations of increments wait there; None if that is unknown.
        counters: the number of their counters, at most: one that is in two of them counts twice,
            and tokens and cells count, too.
        lag: the age of the oldest generation; None if nothing waits.
        is_foreign: whether the increments belong to another database.
        is_late: whether they wait for too long, and nothing has landed meanwhile.
        weak: the check and the message of each reason why it may lose increments, if it is used.
        breaker: the worst breaker of its servers in this process; None before the first call.
    """

    source: RedisSource
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
        """Its name in the database."""
        return self.source.name


def redises(using: str) -> Iterator[tuple[Redis, ...]]:
    """Yield each Redis of a database, and again after each answer.

    If one doesn't answer, its problem is the answer.
    """
    found = [Redis(source, source.problem) for source in known(using)]
    identity = cache(partial(identity_of, using))
    yield tuple(found)
    for at, redis in enumerate(found):
        if redis.source.pending is not None:
            answer = attempt(redis.name, using, partial(_ask, redis, using, identity))
            if isinstance(answer, Away):
                answer = replace(redis, problem=answer.reason)
            found[at] = replace(answer, breaker=redis.source.pending.breaker())
            yield tuple(found)


def _ask(redis: Redis, using: str, identity: Callable[[], str]) -> Redis:
    """Ask one Redis. ``identity``: the identity of the database.

    Raises:
        CounterUnavailable, OutcomeUnknown, Refused: it does not answer, or answers an error.
    """
    source, pending = redis.source, redis.source.pending
    assert pending is not None, "one that cannot be found is not asked"
    slots, owner = pending.waiting(), pending.owner()
    generations = sum(slot.places + bool(slot.open) for slot in slots)
    # The sealed generations, and the open ones with increments.
    oldest = [slot.oldest for slot in slots if slot.places]
    oldest += [slot.generation for slot in slots if slot.open]
    lag = clock.utc() - min(moment_of(UUID(one)) for one in oldest) if oldest else None
    landed = CounterBatch._base_manager.using(using).filter(
        source=pending.source, applied_at__gt=clock.now() - clock.LATE
    )
    is_used = source.is_declared and (source.was_flushed or generations)
    return replace(
        redis,
        generations=generations,
        counters=sum(slot.open + slot.sealed for slot in slots),
        lag=lag,
        is_foreign=owner != "" and owner != identity(),
        is_late=lag is not None and lag > clock.LATE and not landed.exists(),
        weak=tuple(weaknesses(pending)) if is_used else (),
    )


def weaknesses(pending: RedisPending) -> Iterator[tuple[str, str]]:
    """W012 to W015 and W023: why this Redis may lose or refuse increments. Asks one server of a
    cluster."""
    name = pending.name
    told: dict[str, str] = {}
    try:
        for section in ("server", "memory", "persistence"):
            told.update(pending.information(section))
        pending.waiting()  # in scripts, as increments do
    except UNANSWERED as error:
        yield "W014", f"Redis {name} can't be used: {reason_of(error)}."
        return
    policy = told.get("maxmemory_policy", "")
    if policy.startswith("allkeys"):
        yield "W012", f"The Redis {name} may throw increments away: its policy is {policy}."
    if told.get("aof_enabled") == "0":
        yield "W013", f"The Redis {name} forgets increments when it stops: it has no AOF."
    if told.get("redis_mode") == "cluster" and pending.together:
        yield "W023", f"Redis {name} is a node of a cluster, but isn't declared as a cluster."
    version = told.get("redis_version", "")
    number = re.match(r"(\d+)\.(\d+)", version)
    if number and tuple(map(int, number.groups())) < OLDEST_REDIS:
        yield "W015", f"The Redis {name} is {version}: older than 6.2, and not tested."


def findings(redis: Redis) -> Iterator[Finding]:
    """The amount that waits in one Redis, and its problems."""
    if redis.source.pending is None:
        source = redis.source
        gone = _("it was counted in, and cannot be found to flush it: %(problem)s")
        if source.is_declared:
            yield says_more(source.name, "cached", source.problem, "manage.py check")
        else:
            yield wrong(source.name, "cached", gone, problem=source.problem)
    elif redis.generations is None:
        mute = _("it cannot be asked: %(reason)s")
        yield wrong(redis.name, "cached", mute, reason=redis.problem)
    elif redis.is_foreign:
        foreign = _(
            "it holds increments for another database: if this one has taken its place, "
            "run %(command)s"
        )
        yield wrong(redis.name, "cached", foreign, "manage.py counters flush --adopt")
    elif redis.generations:
        yield _waiting(redis, redis.generations)
    for code, message in redis.weak:
        if f"counters.{code}" not in settings.SILENCED_SYSTEM_CHECKS:
            yield says_more(redis.name, "cached", message, "manage.py check --deploy")


def _waiting(redis: Redis, generations: int) -> Finding:
    command = "manage.py counters flush" if redis.is_late else ""
    told = {"minutes": clock.LATE // timedelta(minutes=1), "command": command}
    never = _("nothing has landed for %(minutes)d minutes: does %(command)s run?") % told
    return Finding(
        *(redis.name, "cached", generations, redis.counters, never if redis.is_late else ""),
        needed=redis.is_late,
        lag=round(redis.lag.total_seconds() if redis.lag else 0.0, 3),
        command=command,
    )
