"""Facts: the state of one database's counters, read part by part. Changes nothing."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar
from uuid import UUID

from django.db import Error, InterfaceError, OperationalError, connections, router
from django.db.models import Count, Max, Q, Sum
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_counters import clock
from django_counters.access import created_key
from django_counters.adjustments.models import AdjustmentRequest, CounterAdjustment
from django_counters.errors import CounterError, CounterUnavailable, OutcomeUnknown
from django_counters.features import Feature, Finding, GaugeValue
from django_counters.ledger.upkeep import State, state
from django_counters.reading import values_of
from django_counters.redis.commands import ServerRefused
from django_counters.registry import registry
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.session import identity_of
from django_counters.tables import CounterBatch, CounterIncident
from django_counters.tables.schema import COUNTERS, ENTRIES
from django_counters.tokens import milliseconds_of, mint, moment_of
from django_counters.upkeep import Stranger, attempted, caches, contained, places, strangers

if TYPE_CHECKING:
    from django_counters.cached.pending import RedisPending
    from django_counters.cached.sources import RedisSource

logger = logging.getLogger("django_counters")
# How long an incident is recent.
RECENT = timedelta(days=7)
OLDEST_REDIS = (6, 2)
# The errors of a server that gives no answer.
UNANSWERED = (CounterUnavailable, OutcomeUnknown, ServerRefused)
# Those of an outage, for which an app isn't to blame.
OUTAGES = (OperationalError, InterfaceError, CounterError, *UNANSWERED)
# Minutes.
PERIODS = (10, 60)
# A rate counts no more entries, to be quick on a busy site.
MOST_ENTRIES = 100_000
_DAY = timedelta(days=1)
_T = TypeVar("_T")
_F = TypeVar("_F", bound=Finding | GaugeValue)


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
class InflowRate:
    """How much came in over the last minutes.

    Attributes:
        minutes: the number of minutes.
        amount: how much came in.
        capped: whether there was more, which was not counted.
    """

    minutes: int
    amount: int
    capped: bool = False

    @property
    def per_minute(self) -> float:
        """How much came in within a minute, on average."""
        return self.amount / self.minutes


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of the counters of one database. Unknown parts are None.

    Attributes:
        using: the database.
        tables: the names of all its tables.
        spread: the amount that waits in shards and slots.
        ledger: the state of the ledger.
        redises: the state of each Redis.
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
    ledger: State | None = None
    redises: tuple[Redis, ...] | None = None
    incidents: tuple[Incidents, ...] | None = None
    requests: int | None = None
    rooms: tuple[Room, ...] | None = None
    strangers: tuple[Stranger, ...] | None = None
    guard: str | None = None
    added: tuple[Finding | GaugeValue, ...] | None = None
    landed: tuple[InflowRate, ...] | None = None
    entries: tuple[InflowRate, ...] | None = None
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
    """Read them as `gather` does, and yield after each part, so that a slow part hides no other."""
    for part in parts:
        if getattr(found, part) is not None:
            continue
        label, read = PARTS[part]
        answer = attempt(_(label), found.using, partial(read, found.using))
        if isinstance(answer, Away):
            found = replace(found, away=(*found.away, answer))
        else:
            found = replace(found, **{part: answer})
        yield found
        for redises in _answering(found) if part == "redises" else ():
            found = replace(found, redises=redises)
            yield found


def _answering(found: Facts) -> Iterator[tuple[Redis, ...]]:
    """Yield after each Redis. If one doesn't answer, its problem is the answer."""
    identity, redises = cache(partial(identity_of, found.using)), list(found.redises or ())
    for at, redis in enumerate(redises):
        if redis.source.pending is not None:
            answer = attempt(redis.name, found.using, partial(_ask, redis, found.using, identity))
            if isinstance(answer, Away):
                answer = replace(redis, problem=answer.reason)
            redises[at] = replace(answer, breaker=redis.source.pending.breaker())
            yield tuple(redises)


def attempt(part: str, using: str, read: Callable[[], _T]) -> _T | Away:
    """Return a part's value, or `Away`: an error in one part must not hide the others."""
    block = contained(using)
    try:
        with block:
            return read()
    except Exception as error:
        if not isinstance(error, (Error, CounterError, *UNANSWERED)):
            logger.exception("%s of the database %s cannot be asked.", part, using)
        return Away(part, reason_of(error), error)


def added(
    using: str,
    hook: Callable[[Feature, str], Iterable[_F]],
    raised: tuple[type[Exception], ...] = (),
) -> Iterator[_F | Finding]:
    """Yield the results of a hook. Its error is a finding; those in ``raised`` are raised."""
    failed: dict[str, str] = {}
    for _app, results in attempted(using, lambda feature: [*hook(feature, using)], failed, raised):
        yield from results
    text = _("the app failed: %(error)s (the log has more)")
    for app, error in failed.items():
        yield Finding(app, "", 0, 0, text % {"error": error}, needed=True)


def local_findings(using: str) -> Iterator[Finding | GaugeValue]:
    """Yield the findings and gauges of features that need no database."""
    return added(using, lambda feature, using: _expected(feature, feature.local_findings(using)))


def _findings_of(feature: Feature, using: str) -> Iterator[Finding | GaugeValue]:
    return _expected(feature, feature.findings(using))


def _expected(
    feature: Feature, findings: Iterable[Finding | GaugeValue]
) -> Iterator[Finding | GaugeValue]:
    """Yield the findings of a feature, and its gauges that a scrape expects."""
    gauges = feature.gauges()
    for finding in findings:
        if isinstance(finding, GaugeValue) and finding.gauge not in gauges:
            undeclared = _("%(gauge)s is not among the gauges of its app, and not shown")
            action = undeclared % {"gauge": finding.gauge.name}
            yield Finding("metrics", "", 0, 0, action, needed=True)
        else:
            yield finding


def _spread(using: str) -> tuple[Unfolded, ...]:
    """Return the shards and slots that wait for a rollup."""
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


def _redises(using: str) -> tuple[Redis, ...]:
    """Return each Redis of a database. Sends nothing to it yet."""
    if not (
        caches(using) or (COUNTERS.stands_in(using) and registry.kept(SqlBatches, using).sources())
    ):
        return ()
    from django_counters.cached.sources import known

    return tuple(Redis(source, source.problem) for source in known(using))


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


def reason_of(error: Exception) -> str:
    """Return the first line of a server's or driver's error."""
    text = error.reason if isinstance(error, CounterUnavailable) else str(error)
    return text.strip().partition("\n")[0].rstrip(".")


def _incidents(using: str) -> tuple[Incidents, ...]:
    """Return the recent incidents of each kind."""
    if not router.allow_migrate_model(using, CounterIncident):
        return ()
    labels = {kind: str(label) for kind, label in CounterIncident.Kind.choices}
    recent = CounterIncident._base_manager.using(using).filter(found_at__gt=clock.now() - RECENT)
    kinds = recent.values("kind").annotate(number=Count("pk"), last=Max("found_at"))
    return tuple(
        Incidents(row["kind"], labels.get(row["kind"], row["kind"]), row["number"], row["last"])
        for row in kinds.order_by("kind")
    )


def _rooms(using: str) -> tuple[Room, ...]:
    """Return the namespaces in which the API may create counters in this database."""
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
    """Return the state of the adjustments' guard, if it is wrong."""
    if not router.allow_migrate_model(using, CounterAdjustment):
        return ""
    from django_counters.adjustments import guard

    found = guard.state(using)
    return "" if found == guard.wanted_state(using) else found


def _landed(using: str) -> tuple[InflowRate, ...]:
    """Return the rate of increments that were flushed from Redis."""
    since = {minutes: clock.now() - timedelta(minutes=minutes) for minutes in PERIODS}
    rows = CounterBatch._base_manager.using(using).filter(applied_at__gt=min(since.values()))
    sums = rows.aggregate(
        **{
            f"of_{minutes}": Sum("total", filter=Q(applied_at__gt=moment), default=0)
            for minutes, moment in since.items()
        }
    )
    return tuple(InflowRate(minutes, int(sums[f"of_{minutes}"])) for minutes in PERIODS)


def _entries(using: str) -> tuple[InflowRate, ...]:
    """Return the rate of new ledger entries."""
    return tuple(_rate(minutes, using) for minutes in PERIODS)


def _rate(minutes: int, using: str) -> InflowRate:
    """Count by the tokens' index, which begins with their time, in the last partitions only."""
    now = clock.utc()
    since = now - timedelta(minutes=minutes)
    ends = {"token__gte": _first(since), "token__lt": _first(now + timedelta(milliseconds=1))}
    # A day more, because the column may be in any time zone.
    rows = ENTRIES.rows(using).filter(created_at__gte=clock.shown(since - _DAY), **ends)
    number = rows.order_by().values("token")[: MOST_ENTRIES + 1].count()
    return InflowRate(minutes, min(number, MOST_ENTRIES), capped=number > MOST_ENTRIES)


def _first(moment: datetime) -> UUID:
    """The least token of a millisecond."""
    return UUID(int=milliseconds_of(mint(moment)) << 80)


_TO_DO = gettext_noop("work to do")
# All parts in their order: the name for people, and how to read it.
PARTS: Mapping[str, tuple[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "tables": (
            gettext_noop("database"),
            lambda using: frozenset(connections[using].introspection.table_names()),
        ),
        "spread": (gettext_noop("shards and slots"), _spread),
        "ledger": (gettext_noop("ledger"), state),
        "redises": (gettext_noop("Redis"), _redises),
        "incidents": (gettext_noop("incidents"), _incidents),
        "rooms": (_TO_DO, _rooms),
        "strangers": (_TO_DO, lambda using: tuple(strangers(using))),
        "guard": (_TO_DO, _guard),
        "added": (_TO_DO, lambda using: tuple(added(using, _findings_of, OUTAGES))),
        "requests": (gettext_noop("requests"), _requests),
        "landed": (gettext_noop("landed increments"), _landed),
        "entries": (gettext_noop("entries"), _entries),
    }
)
