"""A worker and beat as they run on a server: whatever happens to them, counts are exact."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

import pytest

celery = pytest.importorskip("celery", reason="the extra celery is not installed")

from django_counters.cached.sources import slots_of  # noqa: E402
from django_counters.models import CounterIncident  # noqa: E402
from django_counters.tasks import FLUSH  # noqa: E402
from tests.redis.counting import eventually, server  # noqa: E402
from tests.workers.connections import shared  # noqa: E402
from tests.workers.running import PATIENCE, Crew, check, counting, is_drained, landed, waits  # noqa: E402

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
STEPS = ("look", "cut", "judge", "read", "apply", "acknowledge", "acknowledged")
DUPLICATES = 50


def steps(broker: str) -> Sequence[str]:
    """All with Redis, which is always there, and every other one with RabbitMQ."""
    return STEPS[1::2] if broker.startswith("amqp") else STEPS


def send(broker: str, crew: Crew, times: int) -> None:
    """Send the task that flushes, as beat would, so many times."""
    app: Any = celery.Celery("sender", broker=broker, set_as_current=False)
    app.conf.update(
        task_default_queue=crew.name,
        task_default_exchange=crew.name,
        task_default_routing_key=crew.name,
    )
    if broker.startswith("redis"):
        app.conf.broker_transport_options = {"global_keyprefix": crew.name}
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
        for _ in range(times):
            app.send_task(FLUSH, producer=producer)
    app.close()


def flushes(crew: Crew) -> int:
    return len([line for line in crew.noted("began") if line.startswith(FLUSH)])


def test_beat_and_a_worker_land_it_once(broker: str, crew: Crew) -> None:
    worker = crew.worker()
    for _ in range(2):
        crew.beat()
    with counting() as acknowledged:
        assert eventually(lambda: len(landed()) > 2, PATIENCE), "nothing has landed"
        send(broker, crew, DUPLICATES)
        begun = flushes(crew)
        assert eventually(lambda: flushes(crew) >= begun + DUPLICATES, PATIENCE)
    # It is the worker that lands the rest, too.
    all_there = eventually(lambda: landed().items() >= dict(acknowledged).items(), PATIENCE)
    found = [incident.detail for incident in CounterIncident.objects.all()]
    assert all_there, f"{landed()} of {dict(acknowledged)}, {waits()} wait, {found}"
    worker.stop(grace=30)
    check(acknowledged)
    assert crew.noted("failed") == []
    told = crew.noted("connections")
    assert len({line.split()[0] for line in told}) >= 3, "the parent and two children"
    assert shared(told) == {}
    assert told[0] == told[-1], "the connection of the parent is still its own"


def test_buffers_of_its_children(broker: str, crew: Crew) -> None:
    crew.buffer()
    worker = crew.worker()
    send(broker, crew, DUPLICATES)
    assert eventually(lambda: flushes(crew) >= DUPLICATES, PATIENCE)
    worker.stop(grace=30)
    assert eventually(is_drained, PATIENCE)
    # One before the fork and one at the end are those of the parent.
    children = len(crew.noted("connections")) - 2
    assert children >= DUPLICATES
    assert landed() == {"views:parent": 2, "views:child": children}


def let_others_flush(crew: Crew, prefix: str) -> None:
    """Do what time would: forget who was flushing."""
    with server() as direct:
        direct.delete(slots_of("default", prefix).flight)


def halted(crew: Crew, step: str) -> str:
    """Wait until a process has stopped at a step; which one."""

    def found() -> list[str]:
        return [line.split()[0] for line in crew.noted("halted") if line.split()[1] == step]

    assert eventually(lambda: bool(found()), PATIENCE), f"nobody got to {step}"
    crew.halt.unlink()
    (process,) = found()
    return process


@pytest.mark.faults
class TestKilled:
    """Without beat, whose messages are too old when they are delivered again."""

    def test_its_child_at_each_step(self, broker: str, crew: Crew, cached: str) -> None:
        worker = crew.worker()
        with counting() as acknowledged:
            for step in steps(broker):
                crew.halt.write_text(step)
                send(broker, crew, 3)
                os.kill(int(halted(crew, step)), signal.SIGKILL)
                let_others_flush(crew, cached)
            assert eventually(lambda: bool(crew.noted("again")), PATIENCE), "delivered once only"
        assert worker.running
        worker.stop(grace=30)
        check(acknowledged)
        assert crew.noted("failed") == []

    def test_itself_in_the_middle(self, broker: str, crew: Crew, cached: str) -> None:
        with counting() as acknowledged:
            for step in steps(broker)[1:3]:
                worker = crew.worker()
                crew.halt.write_text(step)
                send(broker, crew, 3)
                halted(crew, step)
                # Its children end with it.
                worker.kill()
                let_others_flush(crew, cached)
            crew.worker()
            assert eventually(lambda: bool(crew.noted("again")), PATIENCE), "delivered once only"
        check(acknowledged)
        assert crew.noted("failed") == []
