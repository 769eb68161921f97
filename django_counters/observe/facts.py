"""Gathers the state of the counters of one database, for all that report it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from django.db import Error, connections, router, transaction
from django.db.models import Count, Max
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_counters import clock
from django_counters.access import created_key
from django_counters.adjustments.models import AdjustmentRequest, CounterAdjustment
from django_counters.exceptions import CounterError
from django_counters.features import Finding, GaugeValue, features
from django_counters.observe.filed import Filed, filed
from django_counters.observe.members import Members, waiting
from django_counters.observe.rates import Rate, entries, landed
from django_counters.observe.redises import UNANSWERED, Redis, ask, reason_of, unasked
from django_counters.read.values import values_of
from django_counters.registry import registry
from django_counters.stores.sql.identity import identity_of
from django_counters.tables import CounterIncident
from django_counters.tables.standing import COUNTERS
from django_counters.upkeep.ledger import State, state
from django_counters.upkeep.places import Stranger, places, strangers

logger = logging.getLogger("django_counters")
# How long an incident is recent.
RECENT = timedelta(days=7)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Away:
    """A part that could not be read, and why."""

    part: str
    reason: str
    error: Exception = field(compare=False, repr=False)


class Unfolded(NamedTuple):
    """Rows of shards or slots that wait for a rollup.

    Attributes:
        subject: the namespace, or the field.
        strategy: the strategy that the counters have now.
        left_by: the strategy that has written the rows.
        rows: the number of rows.
        counters: the number of their counters.
    """

    subject: str
    strategy: str
    left_by: str
    rows: int
    counters: int


@dataclass(frozen=True, slots=True)
class Incidents:
    """Recent incidents of one kind: how many, and when the last one was."""

    kind: str
    label: str
    number: int
    last: datetime


class Room(NamedTuple):
    """A namespace: how many of its counters were created over HTTP, and how many may be."""

    namespace: str
    created: int
    most: int


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of the counters of one database. Unknown parts are None.

    Attributes:
        using: the database.
        tables: the names of all its tables.
        spread: the amount that waits in shards and slots.
        members: the actors who wait to be put into sets.
        ledger: the state of the ledger.
        redises: the state of each Redis.
        filed: the amount that waits in files of buffers on this machine.
        incidents: the recent incidents, by kind.
        requests: how many adjustments wait for a second person.
        rooms: how many counters were created over HTTP.
        strangers: the rows of fields and models that the project has removed.
        guard: the state of the guard of the adjustments, if it is wrong; else empty.
        added: the findings of other apps, and the values of their gauges.
        landed: how much came from Redis.
        entries: how many entries the ledger got, by the time of their tokens.
        away: the parts that could not be read.
    """

    using: str
    tables: frozenset[str] | None = None
    spread: tuple[Unfolded, ...] | None = None
    members: tuple[Members, ...] | None = None
    ledger: State | None = None
    redises: tuple[Redis, ...] | None = None
    filed: Filed | None = None
    incidents: tuple[Incidents, ...] | None = None
    requests: int | None = None
    rooms: tuple[Room, ...] | None = None
    strangers: tuple[Stranger, ...] | None = None
    guard: str | None = None
    added: tuple[Finding | GaugeValue, ...] | None = None
    landed: tuple[Rate, ...] | None = None
    entries: tuple[Rate, ...] | None = None
    away: tuple[Away, ...] = ()

    @property
    def has_counters(self) -> bool | None:
        """Whether the table of counters exists; None if that is unknown."""
        return None if self.tables is None else COUNTERS.model._meta.db_table in self.tables


def gather(found: Facts, *parts: str) -> Facts:
    """Read those of `PARTS` that are not known yet, and add them.

    The number of queries does not depend on how much was counted.
    """
    for more in growing(found, *parts):
        found = more
    return found


def growing(found: Facts, *parts: str) -> Iterator[Facts]:
    """As `gather`, but yields after each part, so that a slow part hides no other."""
    for part in parts:
        if getattr(found, part) is not None:
            continue
        label, ask_it = PARTS[part]
        answer = asked(_(label), found.using, partial(ask_it, found.using))
        if isinstance(answer, Away):
            found = replace(found, away=(*found.away, answer))
        else:
            found = replace(found, **{part: answer})
        yield found
        for redises in _answering(found) if part == "redises" else ():
            found = replace(found, redises=redises)
            yield found


def _answering(found: Facts) -> Iterator[tuple[Redis, ...]]:
    """Yields after each Redis. One that does not answer has its problem as its answer."""
    identity, redises = cache(partial(identity_of, found.using)), list(found.redises or ())
    for at, redis in enumerate(redises):
        if redis.source.pending is not None:
            answer = asked(redis.name, found.using, partial(ask, redis, found.using, identity))
            if isinstance(answer, Away):
                answer = replace(redis, problem=answer.reason)
            redises[at] = replace(answer, breaker=redis.source.pending.breaker())
            yield tuple(redises)


def asked(part: str, using: str, ask_it: Callable[[], _T]) -> _T | Away:
    """The value of a part, or `Away`: an error in one part must not hide the others."""
    # PostgreSQL refuses statements in a transaction in which one has failed.
    held = connections[using].in_atomic_block
    try:
        with transaction.atomic(using) if held else nullcontext():
            return ask_it()
    except Exception as error:
        if not isinstance(error, (Error, CounterError, *UNANSWERED)):
            logger.exception("%s of the database %s cannot be asked.", part, using)
        return Away(part, reason_of(error), error)


def incidents(using: str, since: timedelta = RECENT) -> tuple[Incidents, ...]:
    """The recent incidents of each kind."""
    if not router.allow_migrate_model(using, CounterIncident):
        return ()
    labels = {kind: str(label) for kind, label in CounterIncident.Kind.choices}
    recent = CounterIncident._base_manager.using(using).filter(found_at__gt=clock.now() - since)
    kinds = recent.values("kind").annotate(number=Count("pk"), last=Max("found_at"))
    return tuple(
        Incidents(row["kind"], labels.get(row["kind"], row["kind"]), row["number"], row["last"])
        for row in kinds.order_by("kind")
    )


def databases() -> list[str]:
    """Return all databases of this site that may have the tables of counters."""
    others = {alias for one in features() for alias in one.foreign_databases()}
    return [alias for alias in connections if alias not in others and COUNTERS.stands_in(alias)]


def _spread(using: str) -> tuple[Unfolded, ...]:
    """The shards and slots that wait for a rollup."""
    found = []
    for place in places(using):
        if place.strategy:
            left = place.left or place.folding.left()
            if left.rows:
                found.append(Unfolded(place.label, place.strategy, "slotted", *left))
        else:
            for namespace, left in place.folding.namespaces().items():
                strategy = registry.policy(f"{namespace}:" if namespace else "").recipe.strategy
                subject = namespace or _("(no namespace)")
                found.append(Unfolded(subject, strategy, "sharded", *left))
    return tuple(found)


def _rooms(using: str) -> tuple[Room, ...]:
    """The namespaces in which the API may create counters in this database."""
    if COUNTERS.writing() != using:
        return ()
    caps = {
        namespace: policy.access.max_counters
        for namespace, policy in registry.policies().items()
        if policy.access.creates
    }
    created = values_of(map(created_key, caps), using)
    return tuple(Room(name, created[created_key(name)], most) for name, most in caps.items())


def _requests(using: str) -> int:
    waits = AdjustmentRequest.State.WAITING
    return AdjustmentRequest._base_manager.using(using).filter(state=waits).count()


def _guard(using: str) -> str:
    """The state of the guard of the adjustments, if it is wrong."""
    if not router.allow_migrate_model(using, CounterAdjustment):
        return ""
    from django_counters.adjustments import guard

    found = guard.state(using)
    return "" if found == guard.wanted_state(using) else found


_TO_DO = gettext_noop("work to do")
# All parts in their order: the name for people, and how to read it.
PARTS: Mapping[str, tuple[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "tables": (
            gettext_noop("database"),
            lambda using: frozenset(connections[using].introspection.table_names()),
        ),
        "spread": (gettext_noop("shards and slots"), _spread),
        "members": (gettext_noop("members"), waiting),
        "ledger": (gettext_noop("ledger"), state),
        "redises": (gettext_noop("Redis"), unasked),
        "filed": (gettext_noop("files of buffers"), filed),
        "incidents": (gettext_noop("incidents"), incidents),
        "rooms": (_TO_DO, _rooms),
        "strangers": (_TO_DO, lambda using: tuple(strangers(using))),
        "guard": (_TO_DO, _guard),
        "added": (
            _TO_DO,
            lambda using: tuple(chain.from_iterable(one.findings(using) for one in features())),
        ),
        "requests": (gettext_noop("requests"), _requests),
        "landed": (gettext_noop("landed increments"), landed),
        "entries": (gettext_noop("entries"), entries),
    }
)
