"""Records the totals of namespaces with ``HISTORY``, period by period, and deletes old ones."""

from __future__ import annotations

from datetime import timedelta

from django.db import DEFAULT_DB_ALIAS, router
from django.utils import timezone

from django_counters import clock
from django_counters.conf import DEFAULT
from django_counters.contrib.series.calendar import period_of
from django_counters.contrib.series.models import CounterSample
from django_counters.contrib.series.options import DAYS, recorded_period
from django_counters.contrib.series.sql import Scope, SqlSamples
from django_counters.features import Done
from django_counters.registry import registry
from django_counters.stores.sql.dialects import dialect_of
from django_counters.types import key_range

# No key begins with it, and every key is before it.
_LAST = "\U0010ffff"


def record_history(using: str = DEFAULT_DB_ALIAS) -> int:
    """Record the totals of namespaces with ``HISTORY``. Return how many were written.

    A period's row has the last total that was seen in it: each run updates the present period, and
    a period that is over never changes. Unchanged counters aren't written. Concurrent calls are
    fine. The changes of a missed run count in the period of the next one.
    """
    periods = {name: recorded_period(one.options) for name, one in registry.policies().items()}
    declared = {name: period for name, period in periods.items() if period}
    if not declared or not router.allow_migrate_model(using, CounterSample):
        return 0
    samples, now, zone = SqlSamples(using), clock.utc(), timezone.get_default_timezone()
    return sum(
        samples.record(scope_of(name), period_of(period, now, zone)[0])
        for name, period in declared.items()
    )


def history(using: str) -> Done:
    """Record the totals, for ``counters upkeep``."""
    number = record_history(using)
    return Done(f"{number} totals recorded", {"database": using, "recorded": number})


def prune_history(using: str = DEFAULT_DB_ALIAS) -> int:
    """Delete totals that were recorded more than ``HISTORY_DAYS`` ago. Return how many rows.

    The last total of each counter before that moment stays. A namespace that no longer records
    totals keeps none. Deletes in small batches.
    """
    is_offered = "history" not in dialect_of(using).lacks
    if not is_offered or not router.allow_migrate_model(using, CounterSample):
        return 0
    samples, now = SqlSamples(using), clock.utc()
    return sum(
        samples.forget(
            scope_of(name),
            now - timedelta(days=policy.options.get("history_days", DAYS)),
            last=not recorded_period(policy.options),
        )
        for name, policy in registry.policies().items()
    )


def scope_of(name: str) -> Scope:
    """Return the counters of a namespace; for ``default``, those in no declared one."""
    if name == DEFAULT:
        return Scope("", _LAST, [other for other in registry.policies() if other != DEFAULT])
    return Scope(*key_range(name))
