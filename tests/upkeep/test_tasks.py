"""The Celery tasks and their schedule, on a real worker."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections

from django_counters import clock
from django_counters.models import (
    Counter,
    CounterBatch,
    CounterDelta,
    CounterIncident,
    CounterSample,
    CounterShard,
    CounterToken,
)
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint
from django_counters.upkeep.sources import sources
from tests.testapp.models import Song

celery = pytest.importorskip("celery", reason="the extra celery is not installed")

from django_counters import tasks  # noqa: E402

NAMES = (
    "flush",
    "rollup",
    "maintain_partitions",
    "record_history",
    "prune",
    "verify",
    "verify_audit",
)


def broker() -> str:
    """The Redis of this run, where Celery can speak to it; else the memory of this process."""
    try:
        import redis  # noqa: F401
    except ImportError:
        return "memory://"
    url = os.environ.get("REDIS_URL") or "memory://"
    # Celery has a name of its own for a socket.
    return url.replace("unix://", "redis+socket://", 1)


@pytest.fixture
def app() -> Iterator[Any]:
    """A Celery app that talks to nobody else."""
    name = f"counters-{os.getpid()}"
    app = celery.Celery(name, broker=broker(), backend="cache+memory://", set_as_current=False)
    app.conf.task_default_queue = name
    app.conf.broker_connection_retry_on_startup = True
    app.finalize()
    yield app
    app.close()


@pytest.mark.django_db
def test_the_task_rolls_up() -> None:
    CounterShard.objects.increment("a", 5)
    song = Song.objects.create()
    song.plays.increment(2)
    result = tasks.rollup.apply().get()
    expected = {"rows": 2, "counters": 2, "orphans": 0, "left": 0, "stuck": []}
    assert result == {**expected, "entries": 0, "waiting": 0}
    assert Counter.objects.get().value == 5
    assert Song.objects.get().plays == 2


@pytest.mark.django_db
def test_the_task_looks_after_partitions() -> None:
    nothing: dict[str, Any] = {
        key: [] for key in ("created", "sealed", "dropped", "busy", "failed")
    }
    # Midnight may have come since the migration.
    tasks.maintain_partitions.apply()
    assert tasks.maintain_partitions.apply().get() == {"forgotten": 0, **nothing}


@pytest.mark.postgres
@pytest.mark.django_db
def test_the_task_makes_a_partition_that_is_missing() -> None:
    tasks.maintain_partitions.apply()
    (*_, extent) = SqlPartitions("default").present()
    with connection.cursor() as cursor:
        cursor.execute(f'DROP TABLE "{extent.name}"')
    assert tasks.maintain_partitions.apply().get()["created"] == [extent.name]
    assert extent in SqlPartitions("default").present()


@pytest.mark.django_db(databases=["default", "other"])
def test_the_task_forgets_tokens() -> None:
    for using in ("default", "other"):
        Counter.objects.increment("a", token="old", using=using)
        CounterToken.objects.using(using).update(created_at=clock.now() - timedelta(days=3))

    def forgotten(**arguments: str) -> int:
        gone: dict[str, int] = tasks.prune.apply(kwargs=arguments).get()
        assert gone["generations"] == gone["samples"] == 0
        return gone["tokens"]

    assert forgotten() == 1
    assert forgotten(using="default") == 0
    assert forgotten(using="other") == 1


@pytest.mark.django_db
def test_the_task_forgets_generations_that_landed_long_ago() -> None:
    def landed(days: int) -> CounterBatch:
        batch = CounterBatch(generation=mint(clock.utc()), slot=0, source="r", counters=1, total=1)
        batch.applied_at = clock.now() - timedelta(days=days)
        batch.save()
        return batch

    landed(31)
    kept = landed(29)
    assert tasks.prune.apply().get() == {"tokens": 0, "generations": 1, "samples": 0, "buckets": 0}
    assert CounterBatch.objects.get() == kept


@pytest.mark.django_db
def test_the_task_verifies() -> None:
    CounterDelta.objects.append("a", 1)
    assert tasks.verify.apply().get() == {"checked": 1, "partitions": 0, "drifts": []}
    Counter.objects.filter(key="a").update(value=7)
    drift = {"key": "a", "expected": 0, "found": 7}
    assert tasks.verify.apply().get()["drifts"] == [drift]
    assert CounterIncident.objects.get().kind == CounterIncident.Kind.DRIFT


@pytest.mark.usefixtures("cached")
@pytest.mark.django_db(transaction=True)
def test_the_task_flushes() -> None:
    Counter.objects.increment_many({"views:a": 3, "views:b": 1})
    report = tasks.flush.apply().get()
    assert (report["counters"], report["away"], report["elsewhere"]) == (2, {}, [])
    assert Counter.objects.get(key="views:a").value == 3
    assert tasks.flush.apply().get()["counters"] == 0


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


@pytest.mark.django_db(databases=["default", "other"])
def test_the_task_takes_a_database() -> None:
    CounterShard.objects.increment("a", 5, using="other")
    assert tasks.rollup.apply().get()["rows"] == 0
    assert tasks.rollup.apply(kwargs={"using": "other"}).get()["rows"] == 1


@pytest.mark.django_db
def test_the_task_records_totals_and_prune_forgets_them() -> None:
    Counter.objects.increment("hits:a", 5)
    with override_counters(hits={"HISTORY": "1h"}):
        assert tasks.record_history.apply().get() == {"recorded": 1}
        assert tasks.record_history.apply().get() == {"recorded": 0}
        CounterSample.objects.update(moment=clock.now() - timedelta(days=91))
        assert tasks.prune.apply().get()["samples"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_task_is_registered_under_a_name_that_stays(app: Any, name: str) -> None:
    registered = f"django_counters.{name}"
    assert getattr(tasks, name).name == registered
    assert registered in app.tasks
    assert app.tasks[registered].ignore_result


def test_the_schedule_has_all_of_them() -> None:
    schedule = tasks.counters_beat_schedule(partitions_every=600, prune_every=1200)
    every = {name: entry["schedule"] for name, entry in schedule.items()}
    assert every == {
        "django_counters.flush:default": 10,
        "django_counters.verify:default": 86_400,
        "django_counters.verify_audit:default": 86_400,
        "django_counters.rollup:default": 60,
        "django_counters.maintain_partitions:default": 600,
        "django_counters.record_history:default": 300,
        "django_counters.prune:default": 1200,
    }


def test_beat_takes_the_schedule(app: Any) -> None:
    app.conf.beat_schedule = {
        **tasks.counters_beat_schedule(rollup_every=30),
        **tasks.counters_beat_schedule(using="other"),
    }
    from celery.beat import Scheduler

    entries: Any = Scheduler(app=app).schedule
    here, there = entries["django_counters.rollup:default"], entries["django_counters.rollup:other"]
    assert here.task == there.task == "django_counters.rollup"
    assert here.schedule.run_every == timedelta(seconds=30)
    assert there.schedule.run_every == timedelta(seconds=60)
    assert (here.kwargs, there.kwargs) == ({"using": "default"}, {"using": "other"})
    assert (here.options["expires"], there.options["expires"]) == (30, 60.0)


def test_the_schedule_is_plain_data_that_others_can_keep() -> None:
    schedule = tasks.counters_beat_schedule(flush_every=0.5, using="other")
    assert json.loads(json.dumps(schedule)) == schedule
    assert {entry["task"] for entry in schedule.values()} == set(schedule_names())
    flushing = schedule["django_counters.flush:other"]
    assert flushing["kwargs"] == {"using": "other"}
    # django-celery-beat keeps it in a column of positive integers.
    assert flushing["options"] == {"expires": 0.5, "expire_seconds": 1}


def schedule_names() -> list[str]:
    return [f"django_counters.{name}" for name in NAMES]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_beat_sends_it_and_a_worker_does_it(app: Any) -> None:
    from celery.beat import Scheduler
    from celery.contrib.testing.worker import start_worker
    from celery.signals import task_postrun

    done = threading.Event()

    def finished(task: Any = None, **_: Any) -> None:
        # The worker's thread has a connection of its own, which would keep the test database.
        connections.close_all()
        done.set()

    app.conf.beat_schedule = tasks.counters_beat_schedule(rollup_every=0.1)
    CounterShard.objects.increment("a", 5)
    assert connection.vendor == "postgresql"
    task_postrun.connect(finished, weak=False)
    try:
        with warnings.catch_warnings():
            # Of Celery's own making, when a worker in a thread is stopped.
            warnings.filterwarnings("ignore", category=ResourceWarning)
            with start_worker(app, perform_ping_check=False, shutdown_timeout=30):
                entry: Any = Scheduler(app=app).schedule["django_counters.rollup:default"]
                entry.options["expires"] = 60
                Scheduler(app=app).apply_entry(entry)
                assert done.wait(30), "the worker did not do it"
    finally:
        task_postrun.disconnect(finished)
    assert_counts({"a": 5})
    assert not CounterShard.objects.exists()
