"""Celery tasks and their schedule; needs the extra ``celery``. The work is in ``upkeep``.

A task carries no data: one that is lost, late, sent twice or killed does no harm.
"""

from __future__ import annotations

from dataclasses import asdict
from math import ceil
from typing import Any

from celery import shared_task
from celery.signals import worker_process_shutdown
from django.db import DEFAULT_DB_ALIAS

FLUSH = "django_counters.flush"
ADOPT_BUFFERS = "django_counters.adopt_buffers"
ROLLUP = "django_counters.rollup"
MAINTAIN_PARTITIONS = "django_counters.maintain_partitions"
RECORD_HISTORY = "django_counters.record_history"
PRUNE = "django_counters.prune"
EXPIRE_HOLDS = "django_counters.expire_holds"
PUBLISH = "django_counters.publish"
PULL = "django_counters.pull"
VERIFY = "django_counters.verify"
VERIFY_AUDIT = "django_counters.verify_audit"


@worker_process_shutdown.connect
def land_buffers(**_: object) -> None:
    """Land what waits in the buffers of a process of a worker, which ends without `atexit`."""
    from django_counters.write.ending import end

    end()


# A schedule is put together in settings, before there are models: the work is imported late.
@shared_task(name=FLUSH, ignore_result=True)
def flush(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Land what waits in Redis. Leaves out a Redis that another one of these is working on."""
    from django_counters.intake.flush import flush as land

    return asdict(land(using, alone=True))


@shared_task(name=ADOPT_BUFFERS, ignore_result=True)
def adopt_buffers(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Land the files of buffers on this machine whose processes have ended. Safe to run at once."""
    from django_counters.write.adopting import adopt

    return adopt(using)._asdict()


@shared_task(name=ROLLUP, ignore_result=True)
def rollup(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Fold shards, slots and entries into the totals of one database. Safe to run at once."""
    from django_counters.upkeep.rollup import rollup as fold

    return asdict(fold(using))


@shared_task(name=MAINTAIN_PARTITIONS, ignore_result=True)
def maintain_partitions(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Make, seal and drop partitions of the ledger. Safe to run at once."""
    from django_counters.upkeep.partitions import maintain

    return asdict(maintain(using))


@shared_task(name=RECORD_HISTORY, ignore_result=True)
def record_history(using: str = DEFAULT_DB_ALIAS) -> dict[str, int]:
    """Record the totals of namespaces that ask for a history. Safe to run at once."""
    from django_counters.upkeep.recording import record_history as record

    return {"recorded": record(using)}


@shared_task(name=PRUNE, ignore_result=True)
def prune(using: str = DEFAULT_DB_ALIAS) -> dict[str, int]:
    """Delete expired rows, as ``counters prune`` does. Safe to run at once."""
    from django_counters.upkeep.prune import prune_all

    return prune_all(using)


@shared_task(name=EXPIRE_HOLDS, ignore_result=True)
def expire_holds(using: str = DEFAULT_DB_ALIAS) -> dict[str, int]:
    """Give back what is held beyond its time. Safe to run at once."""
    from django_counters.upkeep.holds import expire_holds as expire

    return {"expired": expire(using)}


@shared_task(name=PUBLISH, ignore_result=True)
def publish(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Let other regions copy what this one has counted. Safe to run at once."""
    from django_counters.upkeep.regions import publish as give

    return asdict(give(using))


@shared_task(name=PULL, ignore_result=True)
def pull(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Copy what other regions have counted. Safe to run at once."""
    from django_counters.upkeep.pulling import pull as take

    return {region: asdict(done) for region, done in take(using).items()}


@shared_task(name=VERIFY, ignore_result=True)
def verify(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Compare the totals of the ledger with its entries; what differs becomes an incident."""
    from django_counters.upkeep.verify import verify as compare

    report = compare(using)
    return {**asdict(report), "drifts": [drift._asdict() for drift in report.drifts]}


@shared_task(name=VERIFY_AUDIT, ignore_result=True)
def verify_audit(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Compare all adjustments with their digests; what differs becomes an incident."""
    from django_counters.upkeep.audit import verify_audit as walk

    return walk(using).as_data()


def counters_beat_schedule(
    *,
    flush_every: float = 10.0,
    buffers_every: float = 60.0,
    rollup_every: float = 60.0,
    partitions_every: float = 3600.0,
    history_every: float = 300.0,
    prune_every: float = 3600.0,
    holds_every: float = 60.0,
    verify_every: float = 86400.0,
    audit_every: float = 86400.0,
    regions_every: float | None = None,
    using: str = DEFAULT_DB_ALIAS,
) -> dict[str, Any]:
    """What to put into ``beat_schedule``: each kind of upkeep every so many seconds.

    ``regions_every``: for a site in several regions.

    A run that could not start before the next one is due is dropped.
    """
    every = {
        FLUSH: flush_every,
        ADOPT_BUFFERS: buffers_every,
        ROLLUP: rollup_every,
        MAINTAIN_PARTITIONS: partitions_every,
        RECORD_HISTORY: history_every,
        PRUNE: prune_every,
        EXPIRE_HOLDS: holds_every,
        VERIFY: verify_every,
        VERIFY_AUDIT: audit_every,
    }
    if regions_every is not None:
        every |= {PUBLISH: regions_every, PULL: regions_every}
    return {
        f"{task}:{using}": {
            "task": task,
            "schedule": seconds,
            "kwargs": {"using": using},
            "options": _dropped_after(seconds),
        }
        for task, seconds in every.items()
    }


def _dropped_after(seconds: float) -> dict[str, float]:
    # The scheduler of django-celery-beat knows the second name only, in whole seconds.
    return {"expires": seconds, "expire_seconds": ceil(seconds)}
