"""Processes that flush, and kill themselves at one of the steps."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

import pytest

from tests.faults.scene import Board, Log, Scene

NAME = "counters faults flusher"
# Those that the flush itself tells of, and three within the transaction and after it.
STEPS = (
    *("look", "cut", "judge", "read", "apply"),
    *("claimed", "before commit", "committed"),
    *("acknowledge", "acknowledged"),
)
_DUE = 2


class Doom:
    """Kills its process at a step, when that comes for the last time."""

    def __init__(self, step: str, due: int, log: Log) -> None:
        self._step = step
        self._left = due
        self._log = log

    def __call__(self, step: str) -> None:
        if step != self._step:
            return
        self._left -= 1
        if not self._left:
            self._log.write(step)
            os.kill(os.getpid(), signal.SIGKILL)


def flush_on(life: int, scene: Scene, board: Board) -> None:
    """Flush again and again, until the step of this life."""
    from django.db import connection

    chance = random.Random(f"{scene.seed} flusher {life}")
    doom = Doom(_step(life, scene.seed), chance.randint(1, _DUE), Log(scene.path("kills.log")))
    hook(doom)
    connection.settings_dict["OPTIONS"]["application_name"] = NAME
    while not board.is_over:
        flush_once(doom, alone=chance.random() < 0.2)
        time.sleep(chance.uniform(0, 0.03))


def _step(life: int, seed: int) -> str:
    """Any, but all of them before one comes again."""
    turn, place = divmod(life, len(STEPS))
    return random.Random(f"{seed} turn {turn}").sample(STEPS, len(STEPS))[place]


def flush_once(step: Any, *, alone: bool) -> str:
    """Flush; why it did not do all, if so: that is nothing new here."""
    from django.db import connection

    from django_counters.cached.flush import flush
    from django_counters.errors import CounterUnavailable, OutcomeUnknown

    try:
        report = flush(step=step, alone=alone)
    except (CounterUnavailable, OutcomeUnknown) as error:
        connection.close_if_unusable_or_obsolete()
        return str(error)
    left = report.busy or report.away or report.elsewhere
    return str(left) if left else ""


def hook(step: Any) -> None:
    """Tell of the steps within the transaction, too. For this process alone."""
    from django_counters.cached.flush import Generations
    from django_counters.landing import ParcelLanding
    from django_counters.stores.sql.batches import SqlBatches

    patch = pytest.MonkeyPatch()
    for owner, name, told in (
        (SqlBatches, "claim", "claimed"),
        (ParcelLanding, "land", "before commit"),
        (Generations, "commit", "committed"),
    ):
        patch.setattr(owner, name, _telling(getattr(owner, name), step, told))


def _telling(method: Any, step: Any, told: str) -> Any:
    def telling(*arguments: Any) -> Any:
        result = method(*arguments)
        step(told)
        return result

    return telling
