"""``python -m tests.faults.regions.troupe``: the process that all others are forks of.

It kills one of them now and then, and forks it anew. Orders are a file; ``obeyed`` says which ones
it has followed.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.faults.regions.settings"
django.setup()

from tests.faults.regions.actors import count, enter, exchange, look  # noqa: E402
from tests.faults.regions.world import REGIONS, Orders, World  # noqa: E402
from tests.faults.scene import Log  # noqa: E402

# Seconds between two kills.
SHORTEST, LONGEST = 0.1, 0.6
COUNTS, EXCHANGES, LOOKS = "count", "exchange", "look"


class Place(NamedTuple):
    """What a process does, where, and which one of several it is."""

    work: str
    region: str
    number: int


PLACES = (
    *(Place(work, region, n) for region in REGIONS for work in (COUNTS, EXCHANGES) for n in (0, 1)),
    Place(LOOKS, "", 0),
)


class Troupe:
    """Forks the actors, kills them, and forks them again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed} kills")
        self._orders = Orders()
        self._alive: dict[Place, int] = {}
        self._life = 0
        self._kills = Log(world.path("kills.log"))

    def run(self) -> None:
        """The whole life of it."""
        due = time.monotonic()
        while not self._orders.over:
            self._obey(self._world.orders())
            self._keep()
            if time.monotonic() > due and self._alive:
                place = self._chance.choice(list(self._alive))
                self._kills.write(place.work)
                self._end(place)
                due = time.monotonic() + self._chance.uniform(SHORTEST, LONGEST)
            time.sleep(0.02)
        for place in list(self._alive):
            self._end(place)
        self._world.path("obeyed").write_text(str(self._orders.number))

    def _obey(self, orders: Orders) -> None:
        if orders.number == self._orders.number:
            return
        for place in list(self._alive):
            if not _goes_on(place, self._orders, orders):
                self._end(place)
        self._orders = orders
        if not orders.over:
            self._world.path("obeyed").write_text(str(orders.number))

    def _keep(self) -> None:
        for place, pid in list(self._alive.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._alive[place]
        for place in PLACES:
            if place not in self._alive and _is_there(place, self._orders):
                self._life += 1
                self._alive[place] = self._fork(self._work(place))

    def _work(self, place: Place) -> Callable[[], None]:
        world, life = self._world, self._life
        if place.work == LOOKS:
            return partial(look, world, life)
        act = count if place.work == COUNTS else exchange

        def work() -> None:
            enter(world, place.region)
            act(world, place.region, life)

        return work

    def _end(self, place: Place) -> None:
        pid = self._alive.pop(place)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def _fork(self, work: Callable[[], None]) -> int:
        """Do something in a process of its own; an error is written down."""
        mother = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            _end_with(mother)
            work()
        except BaseException:
            Log(self._world.path("errors.log")).write(traceback.format_exc())
        finally:
            os._exit(0)


def _is_there(place: Place, orders: Orders) -> bool:
    if place.work == COUNTS:
        return place.region in orders.counting
    return place.work == LOOKS or place.region in orders.peers


def _goes_on(place: Place, before: Orders, after: Orders) -> bool:
    """Whether a process may stay: others begin anew with what is declared now."""
    same = before.peers.get(place.region) == after.peers.get(place.region)
    return _is_there(place, after) and (same or place.work != EXCHANGES)


def _end_with(mother: int) -> None:
    """A child must not go on when the test was broken off."""

    def ask(*_: object) -> None:
        if os.getppid() != mother:
            os._exit(1)

    signal.signal(signal.SIGALRM, ask)
    signal.setitimer(signal.ITIMER_REAL, 5, 5)


if __name__ == "__main__":
    Troupe(World.present()).run()
