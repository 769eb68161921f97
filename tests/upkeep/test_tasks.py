"""The Celery tasks and their schedule; ``tests/workers`` has them on real workers."""

from __future__ import annotations

import json
import logging

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_counters.cached.sources import sources
from django_counters.jobs import jobs
from django_counters.models import Counter, CounterShard
from django_counters.testing import override_counters
from django_counters.types import INT8

pytest.importorskip("celery", reason="the extra celery is not installed")

from django_counters import tasks

LEDGER = {"STRATEGY": "ledger", "OPTIONS": {"retention_days": 9}}


@pytest.mark.needs("ledger")
@pytest.mark.django_db(databases=["default", "other"])
def test_upkeep_does_each_job_in_the_database_that_is_named() -> None:
    here, there = connections["default"], connections["other"]
    with (
        override_counters(hits={"HISTORY": "1h"}, e=LEDGER),
        CaptureQueriesContext(here) as ours,
        CaptureQueriesContext(there) as theirs,
    ):
        done = tasks.upkeep.apply(kwargs={"using": "other"}).get()
        assert list(done) == list(jobs())
        assert list(tasks.upkeep.apply(kwargs={"using": "other"}).get()) == ["buffers"]
        assert list(tasks.rollup.apply(kwargs={"using": "other"}).get()) == ["rollup"]
    assert (len(ours), bool(theirs)) == (0, True)


@pytest.mark.usefixtures("cached")
@pytest.mark.django_db(transaction=True)
def test_the_task_leaves_out_what_another_one_is_flushing() -> None:
    (pending,) = sources("default")
    Counter.objects.increment("views:a")
    with pending.flight() as alone:
        assert alone
        report = tasks.flush.apply().get()["flush"]
        assert (report["counters"], report["elsewhere"]) == (0, ["default"])
    assert tasks.flush.apply().get()["flush"]["counters"] == 1


@pytest.mark.django_db
def test_problems_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    Counter.objects.create(key="full", value=INT8[1])
    CounterShard.objects.create(key="full", shard=0, value=1)
    with caplog.at_level(logging.ERROR):
        assert tasks.rollup.apply().get()["rollup"]["stuck"] == ["full"]
    assert "rollup of the database default: These do not fit" in caplog.text


@pytest.mark.django_db
def test_an_error_fails_the_task_after_all_other_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(using: str) -> int:
        raise RuntimeError(f"no history of {using}")

    monkeypatch.setattr("django_counters.contrib.series.recording.history", fail)
    CounterShard.objects.increment("a")
    with pytest.raises(ExceptionGroup) as failed:
        tasks.upkeep.apply().get()
    assert str(failed.value.exceptions) == "(RuntimeError('no history of default'),)"
    begun = Counter.objects.filter(key__startswith="counters.upkeep", value__gt=0)
    # The files of buffers are those of the machine.
    assert begun.count() == len(jobs()) - 2
    assert not CounterShard.objects.exists()


def test_the_schedule_is_plain_data_that_others_can_keep() -> None:
    schedule = tasks.counters_beat_schedule(every=0.5, using="other")
    assert json.loads(json.dumps(schedule)) == schedule
    assert schedule == {
        "django_counters.upkeep:other": {
            "task": "django_counters.upkeep",
            "schedule": 0.5,
            "kwargs": {"using": "other"},
            # django-celery-beat keeps it in a column of positive integers.
            "options": {"expires": 0.5, "expire_seconds": 1},
        }
    }
    for name in ("upkeep", "flush", "rollup"):
        task = getattr(tasks, name)
        assert (task.name, task.ignore_result) == (f"django_counters.{name}", True)
