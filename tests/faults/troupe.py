"""``python -m tests.faults.troupe``: the process that all others of a scene are forks of.

Told by files in the folder of the scene: ``end`` ends the actors, ``drain`` begins the last
flushes. It answers with ``playing``, ``ended`` and ``drained``.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from functools import partial

import django
import pytest

from tests.faults import mutants
from tests.faults.flushers import flush_on, flush_once
from tests.faults.readers import Reader, survey
from tests.faults.scene import Board, Log, Scene
from tests.faults.writers import Writer

# Seconds within which all that waits has to be landed.
DRAINED_WITHIN = 30.0
# Seconds for which a server is left alone that has failed.
PAUSE = 0.02


class Troupe:
    """Forks the actors, and forks them again when they have killed themselves."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._board = Board(scene.writers)
        self._flushers: dict[int, int] = {}
        self._others: list[int] = []
        self._life = 0

    def run(self) -> None:
        """The whole life of a scene."""
        # What is lost before anybody has looked cannot be told from what never was.
        self._wait(self._fork(lambda: flush_once(lambda step: None, alone=False)))
        self._begin()
        self._told("playing")
        while not self._scene.path("end").exists():
            self._keep_flushing()
            time.sleep(0.005)
        self._end()
        self._told("ended")
        while not self._scene.path("drain").exists():
            time.sleep(0.01)
        self._wait(self._fork(lambda: drain(self._scene)))

    def _begin(self) -> None:
        scene, board = self._scene, self._board
        for number in range(scene.writers):
            writer = Writer(number, scene, board)
            self._others.append(self._fork(writer.run))
        if scene.writers:
            self._others.append(self._fork(Reader(scene, board).run))

    def _keep_flushing(self) -> None:
        """One of the two is started again as soon as it has died."""
        for place in range(self._scene.flushers):
            pid = self._flushers.get(place)
            if pid is None or os.waitpid(pid, os.WNOHANG)[0]:
                work = partial(flush_on, self._life, self._scene, self._board)
                self._flushers[place] = self._fork(work)
                self._life += 1

    def _end(self) -> None:
        """Writers end what they have begun; flushers are killed wherever they are."""
        self._board.end()
        for pid in self._others:
            self._wait(pid)
        for pid in self._flushers.values():
            os.kill(pid, signal.SIGKILL)
            self._wait(pid)
        Log(self._scene.path("hot.log")).write("\n".join(self._board.sums()))

    def _told(self, name: str) -> None:
        self._scene.path(name).touch()

    def _wait(self, pid: int) -> None:
        os.waitpid(pid, 0)

    def _fork(self, work: Callable[[], object]) -> int:
        """Do something in a process of its own; an error is written down."""
        mother = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            self._end_with(mother)
            work()
        except BaseException:
            Log(self._scene.path("errors.log")).write(traceback.format_exc())
        finally:
            os._exit(0)

    def _end_with(self, mother: int) -> None:
        """A child must not go on when the test was broken off."""

        def look(*_: object) -> None:
            if os.getppid() != mother:
                os._exit(1)

        signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, 5, 5)


def drain(scene: Scene) -> None:
    """Read, flush until nothing waits, then fold the ledger: all is in the totals."""
    from django.conf import settings

    from tests.settling import roll_up

    if scene.direct:
        settings.CACHES["default"]["LOCATION"] = scene.direct
    survey(scene, lambda: land(scene))
    while roll_up().waiting:
        pass


def land(scene: Scene) -> None:
    """Flush until nothing waits."""
    begun = time.monotonic()
    while waits := _what_waits():
        assert time.monotonic() < begun + DRAINED_WITHIN, f"not landed in time: {waits}"
        time.sleep(0.02)
    Log(scene.path("drained")).write(f"{time.monotonic() - begun:.1f}")


def _what_waits() -> str:
    from django_counters.cached.sources import sources
    from django_counters.errors import CounterUnavailable

    if left := flush_once(lambda step: None, alone=False):
        return left
    try:
        waits = [slot for source in sources("default") for slot in source.waiting()]
    except CounterUnavailable as error:
        return str(error)
    return str([slot for slot in waits if slot.open + slot.sealed] or "")


def count_at_once() -> None:
    """Let writers come back as soon as Redis does: those are the moments that matter here."""
    from django_counters.redis.routes import Breaker

    impatient = partial(Breaker, pause=PAUSE)
    pytest.MonkeyPatch().setattr("django_counters.redis.routes.Breaker", impatient)


def main() -> None:
    """Be the mother of a scene."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.faults.settings"
    scene = Scene.present()
    django.setup()
    mutants.apply(scene.mutant)
    count_at_once()
    # Once, rather than in each child.

    Troupe(scene).run()


if __name__ == "__main__":
    main()
