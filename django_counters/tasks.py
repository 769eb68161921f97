"""Celery tasks and their schedule; needs the extra ``celery``. The work is in ``upkeep``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from celery import shared_task
from django.db import DEFAULT_DB_ALIAS

ROLLUP = "django_counters.rollup"
PARTITIONS = "django_counters.partitions"
PRUNE = "django_counters.prune"


@shared_task(name=ROLLUP, ignore_result=True)
def rollup(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Fold shards, slots and entries into the totals of one database. Safe to run at once."""
    # A schedule is put together in settings, before there are models.
    from django_counters.upkeep.rollup import rollup as fold

    return asdict(fold(using))


@shared_task(name=PARTITIONS, ignore_result=True)
def partitions(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Make, seal and drop partitions of the ledger. Safe to run at once."""
    from django_counters.upkeep.partitions import maintain

    return asdict(maintain(using))


@shared_task(name=PRUNE, ignore_result=True)
def prune(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget tokens that are out of their window. Safe to run at once."""
    from django_counters.upkeep.prune import prune as forget

    return forget(using)


def beat_schedule(
    *,
    rollup_every: float = 60.0,
    partitions_every: float = 3600.0,
    prune_every: float = 3600.0,
    using: str = DEFAULT_DB_ALIAS,
) -> dict[str, Any]:
    """What to put into ``beat_schedule``: each kind of upkeep every so many seconds.

    A run that could not start before the next one is due is dropped.
    """
    every = {ROLLUP: rollup_every, PARTITIONS: partitions_every, PRUNE: prune_every}
    return {
        f"{task}:{using}": {
            "task": task,
            "schedule": seconds,
            "kwargs": {"using": using},
            "options": {"expires": seconds},
        }
        for task, seconds in every.items()
    }
