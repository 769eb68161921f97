"""What a crowd does to the ledger, and what its readers must see meanwhile."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.concurrency.work import Observed

HOT = "hot"
SHARED = [f"shared:{number}" for number in range(50)]


@dataclass
class Book:
    """What each writer has attempted, and what was acknowledged to it: memory that all share.

    Each writes to its own places only, one for each subject, and so needs no lock.
    """

    writers: int
    subjects: int
    attempted: Any
    acknowledged: Any
    ended: Any

    @classmethod
    def of(cls, writers: int, subjects: int) -> Book:
        """An empty one."""
        array = multiprocessing.get_context("forkserver").RawArray
        places = writers * subjects
        return cls(writers, subjects, array("q", places), array("q", places), array("q", writers))

    def write(self, writer: int, subject: int, by: int, change: Callable[[], Any]) -> None:
        """Make a change that is acknowledged when it returns."""
        place = writer * self.subjects + subject
        self.attempted[place] += by
        change()
        self.acknowledged[place] += by

    def sums(self, subject: int) -> tuple[int, int]:
        """What was acknowledged of a subject, and what was attempted."""
        places = slice(subject, None, self.subjects)
        return sum(self.acknowledged[places]), sum(self.attempted[places])

    def observe(self, subjects: list[Callable[[], int]]) -> list[Observed]:
        """Read them in turn until all writers have ended; what is wrong, and then the last of all.

        What is acknowledged before a read is in it, what is in it was attempted, and none is less
        than the one before.
        """
        wrong: list[Observed] = []
        last = [Observed(0, 0, 0)] * len(subjects)
        while not all(self.ended):
            for subject, read in enumerate(subjects):
                acknowledged, _ = self.sums(subject)
                seen = Observed(acknowledged, read(), self.sums(subject)[1])
                in_bounds = seen.acknowledged <= seen.value <= seen.attempted
                if not in_bounds or seen.value < last[subject].value:
                    wrong.append(seen)
                last[subject] = seen
        return [*wrong[:10], min(last, key=lambda seen: seen.value)]


def append_in_a_crowd(number: int, times: int, rollers: int, book: Book) -> Any:
    """Be a writer; or a roller, and say how many entries were folded; or a reader."""
    if number < book.writers:
        try:
            _append(number, times, book)
        finally:
            book.ended[number] = 1
        return None
    if number < book.writers + rollers:
        return _roll_up(book)
    return book.observe([_hot, _shared])


def _append(number: int, times: int, book: Book) -> None:
    from django_counters.models import CounterDelta

    chance = random.Random(number)
    for _ in range(times):
        for subject, key in enumerate((HOT, chance.choice(SHARED))):
            by = chance.randint(1, 9)
            book.write(number, subject, by, lambda: CounterDelta.objects.append(key, by))  # noqa: B023


def _roll_up(book: Book) -> int:
    from django_counters.upkeep.rollup import rollup

    folded = 0
    while not all(book.ended):
        folded += rollup().entries
    return folded


def _hot() -> int:
    from django_counters.models import Counter

    return int(Counter.objects.value(HOT))


def _shared() -> int:
    from django_counters.models import Counter

    return sum(Counter.objects.values_of(SHARED).values())
