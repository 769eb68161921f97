"""A process that reads one counter that only grows, and notes what contradicts the promise."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from tests.faults.scene import HOT, Board, Log, Scene, lines

if TYPE_CHECKING:
    from django_counters.types import Reading

_T = TypeVar("_T")
SURVEY = "survey.json"
# How values are read when nobody counts any more.
EXACT, WAITING, LANDED = "exact", "cached", "cached, when all has landed,"
TRIES = 100
# What a read can be: lower than one before, lower than acknowledged, higher than attempted.
BACK, MISSED, TOO_MUCH = "back", "missed", "too much"


# Of how many keys the values are asked for in the end, and in one call.
SURVEYED, PAGE = 1500, 500
AN_HOUR = 3600.0


def survey(scene: Scene, land: Callable[[], None]) -> None:
    """Read keys when nobody counts any more: while a part of it waits still, and after that."""
    from django_counters.models import Counter

    said = lines(scene.path(".").glob("writer*.log"))
    keys = sorted({line.split(" ")[1] for line in said}, key=_made)[-SURVEYED:]
    found: dict[str, dict[str, int]] = {EXACT: {}, WAITING: _cached(keys)}
    for start in range(0, len(keys), PAGE):
        page = keys[start : start + PAGE]
        found[EXACT] |= _patiently(lambda: Counter.objects.values_of([HOT, *page]))  # noqa: B023
    land()
    found[LANDED] = _cached(keys)
    scene.path(SURVEY).write_text(json.dumps(found))


def _cached(keys: list[str]) -> dict[str, int]:
    """What came into totals in another way may be missing here; and any age will do."""
    from django_counters.models import Counter

    return {
        key: _patiently(
            lambda: Counter.objects.read(key, consistency="cached", max_age=AN_HOUR).value  # noqa: B023
        )
        for key in (HOT, *keys[-PAGE:])
        if key.startswith("plain:")
    }


def _made(key: str) -> int:
    """When it was made, among those of one writer."""
    return int(key.partition("-")[2].partition(".")[0])


def _patiently(read: Callable[[], _T]) -> _T:
    """A busy machine may be late."""
    from django_counters.errors import CounterUnavailable

    for _ in range(TRIES):
        with suppress(CounterUnavailable):
            return read()
        time.sleep(0.1)
    return read()


class Reader:
    """Reads exactly, and from Redis alone, in turn."""

    def __init__(self, scene: Scene, board: Board) -> None:
        self._board = board
        self._log = Log(scene.path("reader.log"))
        self._reads = 0

    def run(self) -> None:
        """Read until the scene is over."""
        from django_counters.models import Counter

        ways: dict[str, Callable[[], Reading]] = {
            "exact": lambda: Counter.objects.read(HOT, consistency="exact"),
            "cached": lambda: Counter.objects.read(HOT, consistency="cached"),
        }
        last = dict.fromkeys(ways, 0)
        while not self._board.is_over:
            for way, read in ways.items():
                last[way] = self._read(way, read, last[way])
            time.sleep(0.002)
        self._log.write(f"{time.time()} reads {self._reads}")

    def _read(self, way: str, read: Callable[[], Reading], last: int) -> int:
        from django.db import connection

        from django_counters.errors import CounterUnavailable

        acknowledged = sum(self._board.acknowledged)
        try:
            reading = read()
        except CounterUnavailable:
            connection.close_if_unusable_or_obsolete()
            return last
        if reading.consistency != way:
            # Redis was away, and the answer says that it does without.
            return last
        value = reading.value
        attempted = sum(self._board.attempted)
        self._reads += 1
        found = {BACK: value < last, MISSED: value < acknowledged, TOO_MUCH: value > attempted}
        for name in (name for name, wrong in found.items() if wrong):
            said = f"{acknowledged} <= {value} <= {attempted}, before {last}"
            self._log.write(f"{time.time()} {way} {name}: {said}")
        return value
