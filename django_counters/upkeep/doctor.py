"""What waits where, what is left behind by a change of strategy, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.apps import apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.models import Count, Max

from django_counters import clock
from django_counters.conf import problems
from django_counters.kinds.registry import registry
from django_counters.models import Counter, CounterBatch, CounterIncident
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

# A flush that runs lands everything far earlier.
LATE = timedelta(minutes=10)
# For how long an incident is shown.
RECENT = timedelta(days=7)


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
    """

    subject: str
    strategy: str
    rows: int
    counters: int
    action: str = ""
    needed: bool = False
    lag: float | None = None


def _wrong(subject: str, strategy: str, action: str) -> Finding:
    return Finding(subject, strategy, 0, 0, action, needed=True)


def examine(using: str = DEFAULT_DB_ALIAS) -> list[Finding]:
    """Look at one database: what waits where, and whether it belongs there.

    A Redis that does not answer is a finding. Where the settings are wrong, or the tables are not
    there, it looks no further.
    """
    found = [_wrong("settings", "", problem.message) for problem in problems(_setting())]
    found = found or list(_tables(using))
    if found:
        return found
    for place in places(using):
        found.extend(_slots(place) if place.strategy else _shards(place))
    found.extend(_ledger(using))
    for source in known(using):
        found.extend(_cached(source, using))
    found.extend(_incidents(using))
    gone = "the model is gone: remove_stale_contenttypes drops these slots"
    found.extend(_wrong(label, "", gone) for label in strangers(using))
    return found


def _setting() -> object:
    return getattr(settings, "COUNTERS", None)


def _tables(using: str) -> Iterator[Finding]:
    if not router.allow_migrate_model(using, Counter):
        return
    models = apps.get_app_config(Counter._meta.app_label).get_models()
    used = [model for model in models if router.allow_migrate_model(using, model)]
    wanted = {model._meta.db_table for model in used if model._meta.managed}
    missing = wanted.difference(connections[using].introspection.table_names())
    if missing:
        which = "tables" if missing == wanted else ", ".join(sorted(missing))
        yield _wrong("database", "", f"{using} does not have the {which}: run manage.py migrate")


def _shards(place: Place) -> Iterator[Finding]:
    for namespace, (rows, counters) in place.folding.namespaces().items():
        strategy = registry.policy(f"{namespace}:" if namespace else "").recipe.strategy
        yield _finding(namespace or "(no namespace)", strategy, "sharded", rows, counters)


def _slots(place: Place) -> Iterator[Finding]:
    rows, counters = place.folding.left()
    if rows:
        yield _finding(place.label, place.strategy, "slotted", rows, counters)


def _ledger(using: str) -> Iterator[Finding]:
    if not router.allow_migrate_model(using, Counter):
        return
    found = state(using)
    if found.fenced:
        yield Finding("ledger", "ledger", found.entries, found.counters, found.fenced, needed=True)
    elif found.entries:
        yield Finding("ledger", "ledger", found.entries, found.counters, _held_by(found))
    if ledgers() and too_few(found.partitions_ahead):
        ahead = f"{found.partitions_ahead} partitions ahead: run manage.py counters partitions"
        yield _wrong("ledger", "ledger", ahead)


def _held_by(found: State) -> str:
    """Who keeps entries from being rolled up, where somebody does."""
    if found.holder is None:
        return ""
    what, name, since, does = found.holder
    parts = (f"the oldest {what} is {name}", since and f"since {since:%H:%M:%S}", does)
    lag = f"the totals are {found.lag.total_seconds():.0f} s old; " if found.lag else ""
    return lag + ", ".join(part for part in parts if part)


def _finding(subject: str, strategy: str, waits: str, rows: int, counters: int) -> Finding:
    left = f"left from {waits}: manage.py counters rollup folds it" if strategy != waits else ""
    return Finding(subject, strategy, rows, counters, left, needed=bool(left))


def _cached(source: Source, using: str) -> Iterator[Finding]:
    """What waits in one Redis, and what is wrong with it."""
    if source.pending is None:
        gone = "" if source.is_declared else "it was counted in, and cannot be found to flush it: "
        yield _wrong(source.name, "cached", gone + source.problem)
        return
    try:
        waits = backlog(source.pending)
    except UNANSWERED as error:
        yield _wrong(source.name, "cached", f"it cannot be asked: {reason_of(error)}")
        return
    if waits.generations:
        yield _waiting(source.name, waits, using)
    if source.is_declared and (source.was_flushed or waits.generations):
        for code, message in weaknesses(source.pending):
            if f"counters.{code}" not in settings.SILENCED_SYSTEM_CHECKS:
                yield _wrong(source.name, "cached", message)


def _waiting(name: str, waits: Backlog, using: str) -> Finding:
    lag = clock.utc() - waits.since if waits.since else timedelta(0)
    landed = CounterBatch._base_manager.using(using).filter(
        source=name, applied_at__gt=clock.now() - LATE
    )
    action = ""
    if lag > LATE and not landed.exists():
        minutes = LATE // timedelta(minutes=1)
        action = f"nothing has landed for {minutes} minutes: does manage.py counters flush run?"
    return Finding(
        *(name, "cached", waits.generations, waits.counters, action),
        needed=bool(action),
        lag=round(lag.total_seconds(), 3),
    )


def _incidents(using: str) -> Iterator[Finding]:
    if not router.allow_migrate_model(using, CounterIncident):
        return
    labels = dict(CounterIncident.Kind.choices)
    recent = CounterIncident._base_manager.using(using).filter(found_at__gt=clock.now() - RECENT)
    kinds = recent.values("kind").annotate(number=Count("pk"), last=Max("found_at"))
    for row in kinds.order_by("kind"):
        what = f"{row['number']} in {RECENT.days} days, the last at {row['last']:%Y-%m-%d %H:%M}"
        yield _wrong("incidents", "", f"{labels.get(row['kind'], row['kind'])}: {what}")
