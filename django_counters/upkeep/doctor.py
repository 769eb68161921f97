"""What waits where, what is left behind by a change of strategy, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.apps import apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.models import Count, Max
from django.utils.translation import gettext as _

from django_counters import clock
from django_counters.conf import problems
from django_counters.models import (
    AdjustmentRequest,
    Counter,
    CounterAdjustment,
    CounterBatch,
    CounterIncident,
)
from django_counters.registry import registry
from django_counters.stores.sql import guard
from django_counters.stores.sql.identity import identity_of
from django_counters.upkeep.backlog import (
    UNANSWERED,
    Backlog,
    Source,
    backlog,
    known,
    reason_of,
    weaknesses,
)
from django_counters.upkeep.ledger import State, state
from django_counters.upkeep.partitions import ledgers, too_few
from django_counters.upkeep.places import Place, places, strangers
from django_counters.upkeep.rooms import rooms

# A flush that runs lands everything far earlier.
LATE = timedelta(minutes=10)
# For how long an incident is shown.
RECENT = timedelta(days=7)
COUNTERS = "manage.py counters"
# What says more about incidents of a kind.
_ABOUT = {
    CounterIncident.Kind.DRIFT: f"{COUNTERS} verify",
    CounterIncident.Kind.AUDIT: f"{COUNTERS} verify-audit",
}


@dataclass(frozen=True)
class Finding:
    """One thing to know.

    Attributes:
        subject: what it is about.
        strategy: that of the counters it is about; "" where it is about none.
        rows: how many rows wait; of cached counters, how many generations.
        counters: of how many counters.
        action: what to do, or why something waits; empty where there is nothing to say.
        needed: whether somebody has to do something.
        lag: for how many seconds something waits at most, in Redis; None elsewhere.
        command: what to run about it, as it stands in ``action``; empty where no command helps.
    """

    subject: str
    strategy: str
    rows: int
    counters: int
    action: str = ""
    needed: bool = False
    lag: float | None = None
    command: str = ""


@dataclass(frozen=True)
class Asked:
    """What one Redis answered.

    Attributes:
        source: which one.
        waits: what waits there; None where that is not known.
        owner: the identity of the database that flushes it; empty where none has.
        problem: why it is not known; empty where it is.
    """

    source: Source
    waits: Backlog | None
    problem: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Incidents:
    """Incidents of one kind: how many there were lately, and when the last one was."""

    kind: str
    label: str
    number: int
    last: datetime


def _wrong(subject: str, strategy: str, action: str, command: str = "") -> Finding:
    return Finding(subject, strategy, 0, 0, action, needed=True, command=command)


def examine(using: str = DEFAULT_DB_ALIAS) -> list[Finding]:
    """Look at one database: what waits where, and whether it belongs there.

    A Redis that does not answer is a finding. Where the settings are wrong, or the tables are not
    there, it looks no further.
    """
    found = list(hindrances(using))
    if found:
        return found
    ledger = state(using) if router.allow_migrate_model(using, Counter) else None
    asked = map(ask, known(using))
    return list(findings(using, waiting(using), ledger, asked, incidents(using)))


def findings(
    using: str,
    spread: Iterable[Finding],
    ledger: State | None,
    asked: Iterable[Asked],
    recent: Iterable[Incidents],
) -> Iterator[Finding]:
    """All that there is to know, out of what was gathered."""
    yield from spread
    if ledger is not None:
        yield from of_ledger(ledger)
    for one in asked:
        yield from of_redis(one, using)
    yield from of_the_rest(using, recent)


def hindrances(using: str) -> Iterator[Finding]:
    """What is wrong in the settings; if nothing is, which tables are missing."""
    wrong = [
        _says_more("settings", "", problem.message, "manage.py check")
        for problem in problems(getattr(settings, "COUNTERS", None))
    ]
    yield from wrong or _tables(using)


def _says_more(subject: str, strategy: str, problem: str, command: str) -> Finding:
    """A problem whose message stands alone; the command leads to what can be done."""
    more = _("%(command)s says more") % {"command": command}
    return _wrong(subject, strategy, f"{problem} ({more})", command)


def _tables(using: str) -> Iterator[Finding]:
    if not router.allow_migrate_model(using, Counter):
        return
    models = apps.get_app_config(Counter._meta.app_label).get_models()
    used = [model for model in models if router.allow_migrate_model(using, model)]
    wanted = {model._meta.db_table for model in used if model._meta.managed}
    missing = wanted.difference(connections[using].introspection.table_names())
    if missing:
        which = _("tables") if missing == wanted else ", ".join(sorted(missing))
        known_as = {"database": using, "tables": which, "command": "manage.py migrate"}
        action = _("%(database)s does not have the %(tables)s: run %(command)s") % known_as
        yield _wrong("database", "", action, known_as["command"])


def waiting(using: str) -> Iterator[Finding]:
    """What waits in shards and slots for a rollup."""
    for place in places(using):
        yield from _slots(place) if place.strategy else _shards(place)


def _shards(place: Place) -> Iterator[Finding]:
    for namespace, (rows, counters) in place.folding.namespaces().items():
        strategy = registry.policy(f"{namespace}:" if namespace else "").recipe.strategy
        subject = namespace or _("(no namespace)")
        yield _finding(subject, strategy, "sharded", rows, counters)


def _slots(place: Place) -> Iterator[Finding]:
    rows, counters = place.folding.left()
    if rows:
        yield _finding(place.label, place.strategy, "slotted", rows, counters)


def _finding(subject: str, strategy: str, waits: str, rows: int, counters: int) -> Finding:
    if strategy == waits:
        return Finding(subject, strategy, rows, counters)
    command = f"{COUNTERS} rollup"
    told = {"strategy": waits, "command": command}
    left = _("left from %(strategy)s: %(command)s folds it") % told
    return Finding(subject, strategy, rows, counters, left, needed=True, command=command)


def of_ledger(found: State) -> Iterator[Finding]:
    """What waits in the ledger, and what keeps it from being rolled up."""
    waits = ("ledger", "ledger", found.entries, found.counters)
    if found.fenced:
        yield Finding(*waits, found.fenced, needed=True, command=f"{COUNTERS} rebase")
    elif found.entries:
        yield Finding(*waits, _held_by(found))
    if ledgers() and too_few(found.partitions_ahead):
        told = {"number": found.partitions_ahead, "command": f"{COUNTERS} partitions"}
        ahead = _("%(number)s partitions ahead: run %(command)s") % told
        yield _wrong("ledger", "ledger", ahead, f"{COUNTERS} partitions")


def _held_by(found: State) -> str:
    """Who keeps entries from being rolled up, where somebody does."""
    if found.holder is None:
        return ""
    what, name, since, does = found.holder
    oldest = _("the oldest %(what)s is %(name)s") % {"what": what, "name": name}
    begun = _("since %(time)s") % {"time": f"{since:%H:%M:%S}"} if since else ""
    who = ", ".join(part for part in (oldest, begun, does) if part)
    if not found.lag:
        return who
    age = _("the totals are %(seconds)d s old") % {"seconds": round(found.lag.total_seconds())}
    return f"{age}; {who}"


def ask(source: Source) -> Asked:
    """Ask one Redis what waits there. One that does not answer is an answer, too."""
    if source.pending is None:
        return Asked(source, None, source.problem)
    try:
        return Asked(source, backlog(source.pending), owner=source.pending.owner())
    except UNANSWERED as error:
        return Asked(source, None, reason_of(error))


def of_redis(asked: Asked, using: str) -> Iterator[Finding]:
    """What waits in one Redis, and what is wrong with it."""
    source, waits = asked.source, asked.waits
    if source.pending is None:
        yield _lost(source)
    elif waits is None:
        problem = _("it cannot be asked: %(reason)s") % {"reason": asked.problem}
        yield _wrong(source.name, "cached", problem)
    else:
        if asked.owner not in ("", identity_of(using)):
            yield _another(source.name)
        elif waits.generations:
            yield _waiting(source.name, source.pending.source, waits, using)
        if source.is_declared and (source.was_flushed or waits.generations):
            yield from _weak(source.name, weaknesses(source.pending))


def _another(name: str) -> Finding:
    command = f"{COUNTERS} flush --adopt"
    told = {"command": command}
    action = _(
        "it holds increments for another database: if this one has taken its place, run %(command)s"
    )
    return _wrong(name, "cached", action % told, command)


def _lost(source: Source) -> Finding:
    if source.is_declared:
        return _says_more(source.name, "cached", source.problem, "manage.py check")
    told = {"problem": source.problem}
    gone = _("it was counted in, and cannot be found to flush it: %(problem)s") % told
    return _wrong(source.name, "cached", gone)


def _weak(name: str, found: Iterator[tuple[str, str]]) -> Iterator[Finding]:
    for code, message in found:
        if f"counters.{code}" not in settings.SILENCED_SYSTEM_CHECKS:
            yield _says_more(name, "cached", message, "manage.py check --deploy")


def _waiting(name: str, part: str, waits: Backlog, using: str) -> Finding:
    lag = clock.utc() - waits.since if waits.since else timedelta(0)
    landed = CounterBatch._base_manager.using(using).filter(
        source=part, applied_at__gt=clock.now() - LATE
    )
    late = lag > LATE and not landed.exists()
    command = f"{COUNTERS} flush" if late else ""
    told = {"minutes": LATE // timedelta(minutes=1), "command": command}
    never = _("nothing has landed for %(minutes)d minutes: does %(command)s run?") % told
    return Finding(
        *(name, "cached", waits.generations, waits.counters, never if late else ""),
        needed=late,
        lag=round(lag.total_seconds(), 3),
        command=command,
    )


def incidents(using: str) -> list[Incidents]:
    """Incidents of the last days, by kind."""
    if not router.allow_migrate_model(using, CounterIncident):
        return []
    labels = {kind: str(label) for kind, label in CounterIncident.Kind.choices}
    recent = CounterIncident._base_manager.using(using).filter(found_at__gt=clock.now() - RECENT)
    kinds = recent.values("kind").annotate(number=Count("pk"), last=Max("found_at"))
    return [
        Incidents(row["kind"], labels.get(row["kind"], row["kind"]), row["number"], row["last"])
        for row in kinds.order_by("kind")
    ]


def requests(using: str) -> int:
    """How many adjustments wait for a second person."""
    waits = AdjustmentRequest.State.WAITING
    return AdjustmentRequest._base_manager.using(using).filter(state=waits).count()


def of_the_rest(using: str, recent: Iterable[Incidents]) -> Iterator[Finding]:
    """What somebody has to look at: incidents, slots that nobody folds, a guard that is loose."""
    yield from _incidents(recent)
    yield from _full(using)
    yield from _strangers(using)
    yield from _guard(using)


def _guard(using: str) -> Iterator[Finding]:
    """Whether the database refuses to change or delete adjustments, where it keeps them."""
    if not router.allow_migrate_model(using, CounterAdjustment):
        return
    found = guard.state(using)
    if found != guard.wanted_state(using):
        told = {"state": found, "command": "manage.py migrate"}
        action = _("the guard of the adjustments is %(state)s: run %(command)s") % told
        yield _wrong("adjustments", "", action, told["command"])


def _full(using: str) -> Iterator[Finding]:
    """Namespaces in which strangers can create no more counters."""
    for room in rooms(using):
        if room.created >= room.most:
            told = {"created": room.created, "option": "max_counters"}
            action = _("full: %(created)d counters were created over HTTP, as %(option)s says")
            yield _wrong(room.namespace, "", action % told)


def _incidents(recent: Iterable[Incidents]) -> Iterator[Finding]:
    for one in recent:
        last = f"{one.last:%Y-%m-%d %H:%M}"
        told = {"kind": one.label, "number": one.number, "days": RECENT.days, "last": last}
        what = _("%(kind)s: %(number)d in %(days)d days, the last at %(last)s") % told
        if one.kind == CounterIncident.Kind.HISTORY:
            # Each restart is one, also where all was kept: to be known, and nothing to be done.
            yield Finding("incidents", "", 0, 0, what)
        elif one.kind in _ABOUT:
            yield _says_more("incidents", "", what, _ABOUT[CounterIncident.Kind(one.kind)])
        else:
            yield _wrong("incidents", "", what)


def _strangers(using: str) -> Iterator[Finding]:
    for one in strangers(using):
        label, told = f"{one.kind.app_label}.{one.kind.model}.{one.name}", one._asdict()
        if one.has_model:
            command = f"SlottedCounter.objects.filter(record_type={one.kind.pk}, name={one.name!r})"
            told["command"] = f"{command}.delete()"
            gone = _(
                "the field is gone: %(command)s drops what is left, %(amount)d in %(rows)d rows"
            )
        else:
            told["command"] = _remove_stale(one.kind.app_label)
            gone = _(
                "the model is gone: %(command)s drops what is left, %(amount)d in %(rows)d rows"
            )
        yield _wrong(label, "", gone % told, told["command"])


def _remove_stale(app: str) -> str:
    command = "manage.py remove_stale_contenttypes"
    return command if app in apps.app_configs else f"{command} --include-stale-apps"
