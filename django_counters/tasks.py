"""Celery tasks and their schedule; needs the extra ``celery``.

A task carries no data: one that is lost, late, sent twice or killed does no harm.
"""

from __future__ import annotations

import logging
from math import ceil
from typing import Any

from celery import shared_task
from celery.signals import worker_process_shutdown
from django.db import DEFAULT_DB_ALIAS

logger = logging.getLogger("django_counters")
UPKEEP = "django_counters.upkeep"
FLUSH = "django_counters.flush"
ROLLUP = "django_counters.rollup"


@worker_process_shutdown.connect
def end_process(**_: object) -> None:
    """Finish what a process of a worker keeps: it ends without calling functions of `atexit`."""
    from django_counters.features import installed

    for app, feature in installed().items():
        try:
            feature.end_process()
        except Exception:
            # Other apps keep increments that end with this process.
            logger.exception("%s failed when the process of a worker ended.", app)


# A schedule is put together in settings, before there are models: the work is imported late.
@shared_task(name=UPKEEP, ignore_result=True)
def upkeep(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Do all periodic work that is due, as ``counters upkeep --loop`` does. Safe to run at once."""
    from django_counters.jobs import do

    return do(using, due=True)


@shared_task(name=FLUSH, ignore_result=True)
def flush(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Flush. Leaves out a Redis that another one of these is working on."""
    from django_counters.jobs import do

    return do(using, ["flush"])


@shared_task(name=ROLLUP, ignore_result=True)
def rollup(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Fold shards, slots and entries into the totals of one database. Safe to run at once."""
    from django_counters.jobs import do

    return do(using, ["rollup"])


def counters_beat_schedule(*, every: float = 10.0, using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """The entry for ``beat_schedule``: one task, which does what is due.

    Args:
        every: how many seconds lie between two runs. No job runs more often; ``COUNTERS_UPKEEP``
            has the interval of each.
        using: the database. Join the entries of several databases by ``|``.

    A run that could not start before the next one is due is dropped.
    """
    return {
        f"{UPKEEP}:{using}": {
            "task": UPKEEP,
            "schedule": every,
            "kwargs": {"using": using},
            # The scheduler of django-celery-beat knows the second name only, in whole seconds.
            "options": {"expires": every, "expire_seconds": ceil(every)},
        }
    }
