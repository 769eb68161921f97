"""The Celery tasks and their schedule; ``tests/workers`` has them on real workers."""

from __future__ import annotations

import json

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_counters.models import (
    Counter,
)
from django_counters.testing import override_counters
from django_counters.upkeep.sources import sources

pytest.importorskip("celery", reason="the extra celery is not installed")

from django_counters import tasks

NAMES = (
    "flush",
    "adopt_buffers",
    "rollup",
    "maintain_partitions",
    "record_history",
    "prune",
    "expire_holds",
    "verify",
    "verify_audit",
)
LEDGER = {"STRATEGY": "ledger", "OPTIONS": {"retention_days": 9}}


@pytest.mark.django_db(databases=["default", "other"])
def test_each_task_works_in_the_database_that_is_named() -> None:
    here, there = connections["default"], connections["other"]
    for name in NAMES:
        with (
            override_counters(hits={"HISTORY": "1h"}, e=LEDGER),
            CaptureQueriesContext(here) as ours,
            CaptureQueriesContext(there) as theirs,
        ):
            assert isinstance(getattr(tasks, name).apply(kwargs={"using": "other"}).get(), dict)
        # A flush of nothing asks Redis alone, and buffers without a directory have no files.
        asks_nothing = name in ("flush", "adopt_buffers")
        assert (len(ours), bool(theirs) or asks_nothing) == (0, True), name


@pytest.mark.usefixtures("cached")
@pytest.mark.django_db(transaction=True)
def test_the_task_leaves_out_what_another_one_is_flushing() -> None:
    (pending,) = sources("default")
    Counter.objects.increment("views:a")
    with pending.flight() as alone:
        assert alone
        report = tasks.flush.apply().get()
        assert (report["counters"], report["elsewhere"]) == (0, ["default"])
    assert tasks.flush.apply().get()["counters"] == 1


def test_the_schedule_has_all_of_them() -> None:
    schedule = tasks.counters_beat_schedule(partitions_every=600, prune_every=1200)
    every = {name: entry["schedule"] for name, entry in schedule.items()}
    assert every == {
        "django_counters.flush:default": 10,
        "django_counters.adopt_buffers:default": 60,
        "django_counters.verify:default": 86_400,
        "django_counters.verify_audit:default": 86_400,
        "django_counters.rollup:default": 60,
        "django_counters.maintain_partitions:default": 600,
        "django_counters.record_history:default": 300,
        "django_counters.prune:default": 1200,
        "django_counters.expire_holds:default": 60,
    }


def test_the_schedule_is_plain_data_that_others_can_keep() -> None:
    schedule = tasks.counters_beat_schedule(flush_every=0.5, using="other")
    assert json.loads(json.dumps(schedule)) == schedule
    assert {entry["task"] for entry in schedule.values()} == {f"django_counters.{n}" for n in NAMES}
    flushing = schedule["django_counters.flush:other"]
    assert flushing["kwargs"] == {"using": "other"}
    for name in NAMES:
        task = getattr(tasks, name)
        assert (task.name, task.ignore_result) == (f"django_counters.{name}", True)
    # django-celery-beat keeps it in a column of positive integers.
    assert flushing["options"] == {"expires": 0.5, "expire_seconds": 1}
