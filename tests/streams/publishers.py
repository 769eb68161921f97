"""Processes that publish what they count, over a bad network; some of them are killed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any
from uuid import UUID

from django.db import connections
from django.test import override_settings

from django_counters.contrib import buffers
from django_counters.contrib.streams.publishing import Outlet, outlet_to
from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.streams.chaos import Make, Turns

LATER = {"seconds": 3600, "to": "chaos"}
# Until the process ends.
_kept = ExitStack()
# For how many seconds lost replies are waited for. A new producer of Kafka needs half a second.
SOON = {
    "redis": ("django_counters.contrib.streams.redis", 0.2),
    "kafka": ("django_counters.contrib.streams.kafka_outlet", 1.5),
}


def publisher(
    pipe: Any, database: str, declared: dict[str, Any], number: int, killed: bool
) -> None:
    """Count, and publish now and then; tell how much of what, and fork a child that does so too."""
    connections["default"].settings_dict["NAME"] = database
    module, seconds = SOON[declared["BACKEND"]]
    vars(import_module(module))["PATIENCE"] = seconds
    chance = random.Random(number)
    with _settings(declared):
        counted = _publish(chance, 20, f"chaos:{number}")
        child = os.fork()
        if child == 0:
            _publish(chance, 20, f"chaos:{number}-child")
            os._exit(0)
        if killed:
            _die_in(chance)
        counted += _publish(chance, 20, f"chaos:{number}")
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        pipe.send(counted)


def consumer_beside(make: Make, declared: dict[str, Any], step: Callable[[str], None]) -> Turns:
    """Make a consumer in its own process, with the settings of the publishers."""
    _kept.enter_context(_settings(declared))
    return make(step)


@contextmanager
def _settings(declared: dict[str, Any]) -> Iterator[None]:
    with (
        override_settings(COUNTERS_STREAMS={"chaos": declared}),
        override_counters(chaos={"BUFFER": LATER}),
    ):
        yield


def _publish(chance: random.Random, pages: int, key: str) -> int:
    """Publish so many pages, each until it is there."""
    for _ in range(pages):
        Counter.objects.increment(key)
        Counter.objects.increment("chaos:all")
        while True:
            with suppress(OutcomeUnknown, CounterUnavailable):
                buffers.flush()
                break
            if chance.random() < 0.5:
                # What comes meanwhile is in a later page.
                Counter.objects.increment("chaos:all")
                Counter.objects.increment("chaos:more")
    return pages


def _die_in(chance: random.Random) -> None:
    """Be killed at one of the next pages, before it is sent or after that."""
    outlet: Any = type(outlet_to("chaos"))
    append, left, after = outlet.append, [chance.randrange(1, 15)], chance.random() < 0.5

    def dying(self: Outlet, history: UUID, text: str) -> None:
        left[0] -= 1
        if not left[0] and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            append(self, history, text)
        finally:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    outlet.append = dying
