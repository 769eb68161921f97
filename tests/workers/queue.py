"""A Celery app whose workers write down what they do."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import django
from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.workers.settings")
django.setup()

from django_counters.cached import flush as flushing  # noqa: E402
from django_counters.models import Counter  # noqa: E402
from django_counters.tasks import FLUSH, counters_beat_schedule  # noqa: E402
from tests.workers.connections import told  # noqa: E402

NAME = os.environ["WORKERS_QUEUE"]
BROKER = os.environ["WORKERS_BROKER"]
NOTES = Path(os.environ["WORKERS_NOTES"])
# While a step stands in there, whoever comes to it stops.
HALT = NOTES.with_name("halt")

app = Celery(NAME, broker=BROKER)
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_default_queue=NAME,
    task_default_exchange=NAME,
    task_default_routing_key=NAME,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    beat_schedule={
        "flush": {"task": FLUSH, "schedule": 0.2, "options": {"expires": 0.2}},
        **counters_beat_schedule(every=0.5),
    },
    beat_max_loop_interval=0.2,
)
if BROKER.startswith("redis"):
    # What a worker does not acknowledge within a second is delivered again.
    app.conf.broker_transport_options = {"visibility_timeout": 1, "global_keyprefix": NAME}
app.set_default()


def note(*words: object) -> None:
    """One line, which other processes do not come between."""
    with NOTES.open("ab", buffering=0) as file:
        file.write(f"{' '.join(map(str, words))}\n".encode())


_flush = flushing.flush


def _stopping(using: str = "default", *, alone: bool = False) -> Any:
    """A flush that stops at a step, if it is told to."""

    def step(name: str) -> None:
        if HALT.exists() and HALT.read_text() == name:
            note("halted", os.getpid(), name)
            os.kill(os.getpid(), signal.SIGSTOP)

    return _flush(using, alone=alone, step=step)


flushing.flush = _stopping  # type: ignore[assignment]


@signals.worker_init.connect(weak=False)
def _before_the_fork(**_: Any) -> None:
    Counter.objects.increment("views:parent")
    note("connections", told())


@signals.worker_shutdown.connect(weak=False)
def _after_all(**_: Any) -> None:
    Counter.objects.increment("views:parent")
    note("connections", told())


@signals.task_prerun.connect(weak=False)
def _began(task: Any = None, **_: Any) -> None:
    again = bool((task.request.delivery_info or {}).get("redelivered"))
    note("again" if again else "began", task.name, os.getpid())


@signals.task_postrun.connect(weak=False)
def _ended(task: Any = None, **_: Any) -> None:
    if task.name == FLUSH:
        Counter.objects.increment("views:child")
        note("connections", told())


@signals.task_failure.connect(weak=False)
def _failed(sender: Any = None, exception: Any = None, **_: Any) -> None:
    note("failed", sender.name, repr(exception))
