"""What is left behind by a change of strategy, and what is wrong in the settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, router

from django_counters.conf import problems
from django_counters.kinds.registry import registry
from django_counters.models import Counter
from django_counters.upkeep.ledger import State, state
from django_counters.upkeep.partitions import ledgers, too_few
from django_counters.upkeep.places import Place, places, strangers


@dataclass(frozen=True)
class Finding:
    """One thing to know. ``action`` says what to do; it is empty where nothing has to be done."""

    subject: str
    strategy: str
    rows: int
    counters: int
    action: str = ""


def examine(using: str = DEFAULT_DB_ALIAS) -> list[Finding]:
    """Look at one database: what waits where, and whether it belongs there."""
    found = [Finding("settings", "", 0, 0, p.message) for p in problems(_setting())]
    if found:
        return found
    for place in places(using):
        found.extend(_slots(place) if place.strategy else _shards(place))
    found.extend(_ledger(using))
    found.extend(
        Finding(label, "", 0, 0, "the model is gone: remove_stale_contenttypes drops these slots")
        for label in strangers(using)
    )
    return found


def _setting() -> object:
    return getattr(settings, "COUNTERS", None)


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
        yield Finding("ledger", "ledger", found.entries, found.counters, found.fenced)
    elif found.entries:
        yield Finding("ledger", "ledger", found.entries, found.counters, _held_by(found))
    if ledgers() and too_few(found.partitions_ahead):
        ahead = f"{found.partitions_ahead} partitions ahead: run manage.py counters partitions"
        yield Finding("ledger", "ledger", 0, 0, ahead)


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
    return Finding(subject, strategy, rows, counters, left)
