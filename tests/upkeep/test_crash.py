"""A rollup that is killed in the middle: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import time

import pytest

from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.upkeep import rollup
from tests.concurrency.victims import victims
from tests.testapp.models import Song
from tests.upkeep.test_rollup import make_shards, make_slots

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
STATEMENTS = 200


def count(song: Song) -> int:
    """Count in both halves of each of the three places; by how much each counter has grown.

    An increment leaves it to chance which half it takes, and an empty half is not credited. Then
    a statement has another number in the next rollup, and it may be that none is killed at it. And
    `fold_all` does not wait for a total that a killed process holds while it has nothing to add.
    """
    make_shards("a", 1, 1)
    make_slots(song, "plays", 1, 1)
    make_slots(song, "downloads", 1, 1)
    for _ in range(2):
        CounterShard.objects.increment("a")
        SlottedCounter.objects.increment(song, "downloads")
        song.plays.increment()
    return 4


def fold_all() -> None:
    """The server gives the locks of a killed process back as soon as it notices."""
    deadline = time.monotonic() + 30
    while rollup().left:
        assert time.monotonic() < deadline, "what the killed process held is held still"


@pytest.mark.slow
def test_killed_after_each_of_its_statements() -> None:
    song = Song.objects.create(plays=1000)
    expected = 0
    killed: list[str] = []
    with victims(rollup) as kill:
        for statement in range(1, STATEMENTS):
            expected += count(song)
            sql = kill(statement) or ""
            assert Counter.objects.value("a") == expected
            assert song.plays.read().value == 1000 + expected
            assert SlottedCounter.objects.value(song, "downloads") == expected
            if "counterhorizon" in sql:
                # The ledger comes last, and has a test of its own.
                break
            killed.append(sql)
            fold_all()
            assert Counter.objects.get().value == expected
            assert Song.objects.get().plays == 1000 + expected
    assert "counterhorizon" in sql, "the rollup has more statements than were tried"
    # Each half is taken; then the slots of records that are no more, where there is a column.
    assert sum("DELETE" in sql for sql in killed) == 7
    # For each half its total is locked, and credited.
    assert sum("DELETE" not in sql and "UPDATE" in sql for sql in killed) == 12
