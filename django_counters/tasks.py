"""Celery tasks and their schedule; needs the extra ``celery``. The work is in ``upkeep``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from celery import shared_task
from django.db import DEFAULT_DB_ALIAS

ROLLUP = "django_counters.rollup"


@shared_task(name=ROLLUP, ignore_result=True)
def rollup(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Fold shards and slots into the totals of one database. Safe to run twice, or at once."""
    # A schedule is put together in settings, before there are models.
    from django_counters.upkeep.rollup import rollup as fold

    return asdict(fold(using))


def beat_schedule(*, rollup_every: float = 60.0, using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """What to put into ``beat_schedule``: a rollup every so many seconds.

    A run that could not start before the next one is due is dropped.
    """
    return {
        f"{ROLLUP}:{using}": {
            "task": ROLLUP,
            "schedule": rollup_every,
            "kwargs": {"using": using},
            "options": {"expires": rollup_every},
        }
    }
