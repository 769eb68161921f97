"""What each process does in the chaos, and what it tells of it."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter as Sums
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tests.concurrency.ledger_work import Book
from tests.concurrency.work import Observed

KEYS = [f"chaos:{number}" for number in range(5)]
# What each of them has before.
FIRST = 20
WRITERS, REPEATERS, ROLLERS, KEEPERS, READERS = 4, 2, 2, 2, 2
CROWD = WRITERS + REPEATERS + ROLLERS + KEEPERS + READERS + 1
VICTIM = "counters chaos victim"

WIDTH = timedelta(seconds=1)
WINDOW = timedelta(seconds=8)
# Tokens are older than the present by up to so much: there are three seconds to retry any.
OLDEST = timedelta(seconds=5)
# How far the clocks of those who make tokens may be off; here they are one clock.
AHEAD = timedelta(seconds=0.5)
KEEP = timedelta(seconds=9)


class Entry(NamedTuple):
    """What is to be counted once."""

    subject: int
    by: int
    token: UUID


@dataclass
class Scene:
    """What all processes share.

    Attributes:
        seed: where all chance comes from, but that of the schedulers.
        seconds: for how long writers begin something new.
        book: what was attempted and acknowledged.
        repeated: entries that somebody else appends as well; a queue for each of those.
    """

    seed: int
    seconds: float
    book: Book = field(default_factory=lambda: Book.of(WRITERS, len(KEYS)))
    repeated: list[Any] = field(default_factory=lambda: [_queue() for _ in range(REPEATERS)])


def _queue() -> Any:
    return multiprocessing.get_context("forkserver").SimpleQueue()


class Told(NamedTuple):
    """What one process did, how often, and what it read that was wrong."""

    did: Sums[str]
    wrong: list[Observed]


def play(number: int, scene: Scene) -> Told:
    """Be one of the crowd until all writers have ended."""
    pytest.MonkeyPatch().setattr("django_counters.upkeep.partitions.AHEAD", AHEAD)
    actor = Actor(number, scene)
    for count, part in PARTS:
        if number < count:
            part(actor, number)
            break
        number -= count
    return Told(actor.did, actor.wrong)


class Actor:
    """One process: its chance, and what it did."""

    def __init__(self, number: int, scene: Scene) -> None:
        self.scene = scene
        self.chance = random.Random(f"{scene.seed} {number}")
        self.did: Sums[str] = Sums()
        self.wrong: list[Observed] = []

    def write(self, place: int) -> None:
        """Append entries, each again and again until it is known to be counted."""
        self._become_a_victim()
        end = time.monotonic() + self.scene.seconds
        try:
            while time.monotonic() < end:
                self._write(place, self._entry())
        finally:
            self.scene.book.ended[place] = 1
            for queue in self.scene.repeated:
                queue.put(None)

    def repeat(self, place: int) -> None:
        """Append what others append, at the same time or later, and once only."""
        from django_counters.exceptions import TokenExpired

        self._become_a_victim()
        entries = self._given(place)
        try:
            for entry in entries:
                with suppress(TokenExpired):
                    self._survived(lambda: self._append(entry))  # noqa: B023
        finally:
            # Writers wait for whoever does not take what they give.
            for _ in entries:
                pass

    def roll_up(self, place: int) -> None:
        """Roll up all the time."""
        from django_counters.upkeep.rollup import rollup

        def step() -> None:
            self.did["entries rolled up"] += rollup().entries

        self._become_a_victim()
        self._go_on(step)

    def keep(self, place: int) -> None:
        """Make, seal and drop partitions, and verify what is left."""
        from django_counters.exceptions import CounterUnavailable
        from django_counters.upkeep.partitions import maintain
        from django_counters.upkeep.verify import verify

        def step() -> None:
            report = maintain(width=WIDTH, keep=KEEP, ahead=60)
            for what in ("created", "sealed", "dropped", "busy"):
                self.did[f"partitions {what}"] += len(getattr(report, what))
            if report.failed:
                # Nothing else may fail: what somebody holds is busy.
                assert all("connection" in failure for failure in report.failed), report.failed
                raise CounterUnavailable(using="default", reason=report.failed[0])
            assert verify().drifts == []

        self._become_a_victim()
        self._go_on(step)

    def read(self, place: int) -> None:
        """Read all counters in turn."""
        from django_counters.models import Counter

        def reader(key: str) -> Callable[[], int]:
            return lambda: int(Counter.objects.value(key)) - FIRST

        *self.wrong, _ = self.scene.book.observe([reader(key) for key in KEYS])

    def terminate(self, place: int) -> None:
        """Terminate one connection after the other."""
        from tests.concurrency.servers import execute

        while not all(self.scene.book.ended):
            time.sleep(self.chance.uniform(0.02, 0.1))
            rows = execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
                " AND datname = current_database() ORDER BY random() LIMIT 1",
                VICTIM,
            )
            self.did["connections terminated"] += len(rows)

    def _become_a_victim(self) -> None:
        """Let it be known that the connections of this process may be terminated."""
        from django.db import connection

        connection.close()
        connection.settings_dict["OPTIONS"]["application_name"] = VICTIM

    def _entry(self) -> Entry:
        from django_counters import clock
        from django_counters.tokens import mint

        token = mint(clock.utc() - self.chance.random() * OLDEST)
        return Entry(self.chance.randrange(len(KEYS)), self.chance.randint(1, 9), token)

    def _write(self, place: int, entry: Entry) -> None:
        def insist() -> None:
            if self.chance.random() < 0.4:
                self.chance.choice(self.scene.repeated).put(entry)
            while not self._survived(lambda: self._append(entry)):
                self.did["tried again"] += 1

        self.scene.book.write(place, entry.subject, entry.by, insist)

    def _given(self, place: int) -> Iterator[Entry]:
        for _ in range(WRITERS):
            yield from iter(self.scene.repeated[place].get, None)

    def _append(self, entry: Entry) -> bool:
        """At once, or in a transaction that ends late, or in one that is rolled back."""
        from django.db import transaction

        way = self.chance.random()
        if way > 0.3:
            return self._appended(entry)
        with transaction.atomic():
            self._appended(entry)
            time.sleep(self.chance.uniform(0, 0.2))
            transaction.set_rollback(way < 0.1)
        self.did["rolled back" if way < 0.1 else "committed late"] += 1
        return way >= 0.1

    def _appended(self, entry: Entry) -> bool:
        from django_counters.models import CounterDelta

        subject, by, token = entry
        replayed = CounterDelta.objects.append(KEYS[subject], by, token=token).replayed
        self.did["replayed" if replayed else "appended"] += 1
        return True

    def _go_on(self, step: Callable[[], None]) -> None:
        while not all(self.scene.book.ended):
            self._survived(step)

    def _survived(self, step: Callable[[], object]) -> object:
        """What a step returns; False if its connection was terminated. No other error is meant."""
        from django.db import Error, connection

        try:
            return step()
        except Error as error:
            if not _terminated(error):
                raise
            connection.close()
            self.did["connections lost"] += 1
            return False


def _terminated(error: Exception) -> bool:
    from django.db import InterfaceError, OperationalError

    cause: BaseException | None = error
    while cause is not None and not hasattr(cause, "sqlstate"):
        cause = cause.__cause__
    # The server's last words, or none at all.
    said = getattr(cause, "sqlstate", None)
    return isinstance(error, InterfaceError | OperationalError) and said in (None, "57P01")


PARTS: list[tuple[int, Callable[[Actor, int], None]]] = [
    (WRITERS, Actor.write),
    (REPEATERS, Actor.repeat),
    (ROLLERS, Actor.roll_up),
    (KEEPERS, Actor.keep),
    (READERS, Actor.read),
    (1, Actor.terminate),
]
