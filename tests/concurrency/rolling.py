"""Writers, rollups and readers of one counter, all at the same time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from django.db import connection

from django_counters.models import Counter, CounterDelta, SlottedCounter
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.concurrency.book import Book
from tests.concurrency.crowd import processes
from tests.concurrency.work import MIXED
from tests.testapp.models import Song

WRITERS, ROLLERS, READERS = 8, 2, 2
# MariaDB's snapshot may have a change without one committed before: docs/why/databases.md.
_FORGIVEN = {"postgresql": 0, "sqlite": 0, "mysql": 1}


class Subject(NamedTuple):
    """What is counted: how, how it is read, and what of it is rolled up."""

    change: Callable[[int], Any]
    read: Callable[[], int]
    total: Callable[[], int]


def counted(kind: str, times: int, song: int = 0) -> int:
    """Count with a crowd, every reading of which has to be right; what it has to add up to."""
    book = Book.of(WRITERS)
    crowd = WRITERS + ROLLERS + READERS
    answers = processes(crowd, _among_others, kind, song, times, book)
    observed = [answer for answer in answers if answer]
    assert len(observed) == READERS
    for *wrong, last in observed:
        assert len(wrong) <= _FORGIVEN[connection.vendor], wrong
        assert all(seen.value <= seen.attempted for seen in wrong)
        assert last.value > 0, "the reader came too late to see anything"
    acknowledged, attempted = book.sums()
    assert acknowledged == attempted
    return acknowledged


def _among_others(number: int, kind: str, song: int, times: int, book: Book) -> Any:
    """Be a writer, or one who rolls up, or a reader, who tells what it saw."""
    with override_counters(**MIXED):
        subject = SUBJECTS[kind](song)
        if number < WRITERS:
            return _write(number, subject, times, book)
        if number < WRITERS + ROLLERS:
            while not all(book.ended):
                rollup()
            return None
        return book.observe(subject.read)


def _write(number: int, subject: Subject, times: int, book: Book) -> None:
    chance = random.Random(number)
    try:
        for _ in range(times):
            by = chance.randint(1, 9)
            book.write(number, by, lambda: subject.change(by))  # noqa: B023
    finally:
        book.ended[number] = 1


def _named(key: str, change: Callable[[int], Any]) -> Subject:
    return Subject(
        change,
        lambda: Counter.objects.value(key),
        lambda: Counter.objects.get(key=key).value,
    )


def _sharded(song: int) -> Subject:
    return _named("likes:hot", lambda by: Counter.objects.increment("likes:hot", by))


def _ledger(song: int) -> Subject:
    return _named("hot", lambda by: CounterDelta.objects.append("hot", by))


def _slotted(pk: int) -> Subject:
    song = Song.objects.get(pk=pk)
    return Subject(
        song.plays.increment,
        lambda: int(Song.objects.with_counts("plays").get(pk=pk).plays),
        lambda: int(Song.objects.get(pk=pk).plays),
    )


def _by_name(pk: int) -> Subject:
    song = Song.objects.get(pk=pk)
    return Subject(
        lambda by: SlottedCounter.objects.increment(song, "downloads", by),
        lambda: SlottedCounter.objects.value(song, "downloads"),
        lambda: SlottedCounter.objects.get().count,
    )


SUBJECTS: dict[str, Callable[[int], Subject]] = {
    "sharded": _sharded,
    "ledger": _ledger,
    "slotted": _slotted,
    "by name": _by_name,
}
