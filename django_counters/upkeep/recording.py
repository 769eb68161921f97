"""The light history: totals of the namespaces that ask for it, recorded period by period."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import DEFAULT_DB_ALIAS, router
from django.utils import timezone

from django_counters import clock
from django_counters.calendar import period_of
from django_counters.conf import DEFAULT
from django_counters.registry import registry
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.samples import Scope, SqlSamples
from django_counters.tables import CounterSample
from django_counters.types import key_range

# No key begins with it, and every key is before it.
_LAST = "\U0010ffff"


def record_history(using: str = DEFAULT_DB_ALIAS) -> int:
    """Record the totals of namespaces with ``HISTORY``; how many were written.

    A period is recorded with the last total that was seen in it: each run brings the present period
    up to date, and a period that is over is never changed again. A counter that is as it was is not
    written. Any number can run at once; a run that is missed leaves its changes to the next one, in
    whose period they then are.
    """
    declared = {name: one.history for name, one in registry.policies().items() if one.history}
    if not declared or not router.allow_migrate_model(using, CounterSample):
        return 0
    samples, now = SqlSamples(using), clock.utc()
    return sum(
        samples.take(scope_of(name), _beginning(period, now)) for name, period in declared.items()
    )


def forget_history(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget what was recorded longer ago than ``HISTORY_DAYS``; how many rows. In small batches.

    The last total before that moment stays: it is what a counter had then. Nothing stays of a
    namespace that records its totals no more.
    """
    is_offered = "history" not in dialect_of(using).lacks
    if not is_offered or not router.allow_migrate_model(using, CounterSample):
        return 0
    samples, now = SqlSamples(using), clock.utc()
    return sum(
        samples.forget(
            scope_of(name), now - timedelta(days=policy.history_days), last=not policy.history
        )
        for name, policy in registry.policies().items()
    )


def scope_of(name: str) -> Scope:
    """The counters of a namespace; of ``default`` those that no other one has."""
    if name == DEFAULT:
        return Scope("", _LAST, list(_declared()))
    return Scope(*key_range(name))


def _declared() -> Iterator[str]:
    return (name for name in registry.policies() if name != DEFAULT)


def _beginning(period: str, moment: datetime) -> datetime:
    """When the period of a moment began, by the clocks and the calendar of ``TIME_ZONE``."""
    zone = timezone.get_default_timezone()
    return period_of(period, moment, zone)[0]
