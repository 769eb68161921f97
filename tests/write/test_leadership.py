"""Buffers with files in one directory: one process lands what all of them have counted."""

from __future__ import annotations

import time
from collections import Counter as Sums
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters.exceptions import CounterUnavailable, TokenConflict
from django_counters.models import Counter, CounterIncident
from django_counters.signals import batch_applied
from django_counters.stores.redis.keys import slot_of
from django_counters.stores.sql.positions import SqlPositions
from django_counters.strategies.cached import Cached
from django_counters.types import INT8
from django_counters.write import landing
from django_counters.write.adopting import adopt
from tests.write import filing
from tests.write.buffering import landed
from tests.write.filing import _inner, _root, die, files  # noqa: F401 - fixtures
from tests.write.leaders import another, handed_over, own, sums, turn

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("cached"),
]
in_database = pytest.mark.parametrize("inner", ["exact", "sharded"], indirect=True)
in_redis = pytest.mark.parametrize("inner", ["cached"], indirect=True)


def test_one_lands_what_all_have_counted(root: Path, inner: str) -> None:
    crew, told = [another() for _ in range(4)], list[Any]()
    for number, one in enumerate(crew):
        one.add("hits:home", 10**number)
        one.add(f"hits:{number}", 1)
    for one in crew:
        turn(one)
    assert (landed(), len(files(root))) == (0, 4)
    listen = sums(told)
    try:
        turn(crew[0])
    finally:
        batch_applied.disconnect(listen)
    # One sum of each counter; one transaction, or one script of each slot.
    expected = {"hits:0": 1, "hits:1": 1, "hits:2": 1, "hits:3": 1, "hits:home": 1111}
    assert Sums(chain.from_iterable(told)) == Sums(list(expected))
    assert dict(item for sums in told for item in sums.items()) == expected
    assert len(told) == (len(set(map(slot_of, expected))) if inner == "cached" else 1)
    assert (landed(), files(root)) == (1111, [])
    for one in crew[1:]:
        turn(one)
    assert [one.amounts() for one in crew] == [{}] * 4
    assert landed() == 1111


def test_it_goes_on_in_the_next_interval(root: Path) -> None:
    leader, other = another(), another()
    for interval in range(1, 4):
        for one in (leader, other):
            one.add("hits:home", 1)
        for _ in range(2):
            turn(leader)
            turn(other)
            # Whatever comes meanwhile is of the next interval.
            other.add("hits:late", 1)
        assert landed() == 2 * interval
    other.flush()
    assert landed("hits:late") == 6


def test_reads_are_right_all_the_time() -> None:
    """Of a process whose counts another one lands."""
    leader = another()
    leader.add("hits:home", 100)
    turn(leader)
    Counter.objects.increment("hits:home", 7)
    assert Counter.objects.value("hits:home") == 7
    turn(own())
    assert Counter.objects.value("hits:home") == 7
    Counter.objects.increment("hits:home", 2)
    turn(leader)
    # It does not know yet that its own 7 were landed.
    assert own().amounts(sent=True) == {"hits:home": 7}
    assert Counter.objects.value("hits:home") == 109
    turn(own())
    assert (landed(), Counter.objects.value("hits:home")) == (107, 109)


def test_a_read_asks_once_for_all_counters(inner: str, monkeypatch: Any) -> None:
    keys, asked = [f"hits:{number}" for number in range(50)], list[int]()
    landed_pages = Cached.landed_pages

    def counted(self: Any, pages: Any) -> Any:
        asked.append(len(pages))
        return landed_pages(self, pages)

    monkeypatch.setattr(Cached, "landed_pages", counted)
    leader = another()
    leader.add("hits:home", 1)
    turn(leader)
    Counter.objects.increment_many(dict.fromkeys(keys, 1))
    turn(own())
    with CaptureQueriesContext(connection) as queries:
        assert set(Counter.objects.values_of(keys).values()) == {1}
    # Before it, and afterwards.
    pages = len(set(map(slot_of, keys)))
    assert asked == ([pages, pages] if inner == "cached" else [])
    # The values, too.
    assert inner == "cached" or len(queries) == 3


def test_a_read_meets_the_landing_of_its_leader(inner: str, monkeypatch: Any) -> None:
    other, found = another(), list[int]()
    Counter.objects.increment("hits:home", 7)
    turn(own())
    other.add("hits:home", 100)
    turn(other)
    lands = filing.lander_of(inner)
    together = lands.land_together

    def read(self: Any, pages: Any) -> None:
        together(self, pages)
        found.append(Counter.objects.value("hits:home"))

    monkeypatch.setattr(lands, "land_together", read)
    turn(own())
    assert set(found) == {107}


class TestTrouble:
    """No process depends on its leader."""

    @in_database
    def test_the_leader_stands_still(self, root: Path, monkeypatch: Any) -> None:
        """Whoever has waited long enough lands it, while the leader has read its file already."""
        leader, other = handed_over()
        turn(other)
        assert landed() == 0
        before = landing.InDatabase._before

        def late(self: Any, pages: Any) -> Any:
            found = before(self, pages)
            monkeypatch.setattr(landing.InDatabase, "_before", before)
            other._patience = time.monotonic()
            turn(other)
            return found

        monkeypatch.setattr(landing.InDatabase, "_before", late)
        turn(leader)
        assert (landed(), files(root), other.amounts()) == (107, [], {})
        turn(leader)
        assert landed() == 107

    @in_redis
    def test_the_leader_of_cached_counters_stands_still(self, root: Path, monkeypatch: Any) -> None:
        """What its process lands meanwhile is counted once: Redis refuses the sum of both."""
        leader, other = handed_over()
        land = Cached.land

        def late(self: Any, pages: Any, deltas: Any) -> bool:
            monkeypatch.setattr(Cached, "land", land)
            other._patience = time.monotonic()
            turn(other)
            with pytest.raises(TokenConflict):
                land(self, pages, deltas)
            return land(self, pages, deltas)

        monkeypatch.setattr(Cached, "land", late)
        turn(leader)
        assert (landed(), files(root), other.amounts()) == (107, [], {})

    def test_the_leader_is_killed(self, root: Path) -> None:
        leader, other = handed_over()
        left = leader.files._home if leader.files else None
        leader.begin()
        assert left
        left.release()
        other._patience = time.monotonic()
        turn(other)
        assert landed() == 7
        other.add("hits:home", 1)
        turn(other)
        assert other.leadership
        assert other.leadership.is_ours
        turn(other)
        assert landed() == 8
        assert adopt().files == 1
        assert (landed(), files(root)) == (108, [])

    def test_whoever_has_handed_over_is_killed(self, root: Path) -> None:
        leader = another()
        leader.add("hits:home", 100)
        turn(leader)
        Counter.objects.increment("hits:home", 7)
        turn(own())
        Counter.objects.increment("hits:home", 3)
        die()
        assert adopt().files == 2
        turn(leader)
        assert (landed(), files(root)) == (110, [])

    def test_somebody_removes_the_file(self, root: Path) -> None:
        """What was handed over is still in the memory of its process."""
        leader, other = handed_over()
        (sealed,) = [file for file in files(root) if file.name.endswith(".sealed")]
        sealed.unlink()
        turn(leader)
        turn(other)
        assert landed() == 107

    def test_the_leader_cannot_land(self, root: Path, inner: str, monkeypatch: Any) -> None:
        leader, other = handed_over()
        with monkeypatch.context() as patch:

            def away(*_: object) -> None:
                raise CounterUnavailable(using="default", reason="away")

            patch.setattr(
                *((Cached, "land") if inner == "cached" else (SqlPositions, "move")), away
            )
            turn(leader)
            assert (landed(), leader.amounts(), other.amounts()) == (
                0,
                {"hits:home": 100},
                {"hits:home": 7},
            )
            assert len(files(root)) == 2
        turn(leader)
        other._patience = time.monotonic()
        turn(other)
        assert landed() == 107

    def test_what_does_not_fit_stops_nothing_that_does(self, inner: str) -> None:
        """The first one fits, and both together do not."""
        leader, other = another(), another()
        # What waits in Redis has two bits less.
        much = 3 * 2**60 if inner == "cached" else INT8[1]
        for one in (leader, other):
            one.add("hits:home", much)
            one.add("hits:b", 1)
            turn(one)
        turn(leader)
        other._patience = time.monotonic()
        turn(other)
        assert (landed(), landed("hits:b")) == (much, 2)
        (incident,) = CounterIncident.objects.all()
        assert incident.detail["amounts"] == {"hits:home": much}
        assert len(incident.detail.get("generations", "1")) == 1

    def test_an_error_that_nobody_has_foreseen_in_what_others_have(
        self, inner: str, monkeypatch: Any
    ) -> None:
        leader, other = handed_over()
        lands = filing.lander_of(inner)
        together = lands.land_together

        def poisoned(self: Any, pages: Any) -> None:
            if len(pages) > 1:
                raise ZeroDivisionError
            together(self, pages)

        monkeypatch.setattr(lands, "land_together", poisoned)
        turn(leader)
        assert (landed(), leader.amounts()) == (100, {})
        other._patience = time.monotonic()
        turn(other)
        assert landed() == 107

    def test_a_leader_that_has_no_time_lets_another_one_lead(self, monkeypatch: Any) -> None:
        leader, other = another(), another()
        leader.add("hits:home", 1)
        for _ in range(2):
            turn(leader)
        monkeypatch.setattr(leader, "buffering", leader.buffering._replace(most=1))
        leader.add("hits:home", 1)
        assert not leader.interval.has_room(1)
        turn(leader)
        assert landed() == 2
        other.add("hits:home", 1)
        turn(other)
        assert other.leadership
        assert other.leadership.is_ours

    @in_database
    def test_a_leader_that_is_stopped_while_it_lands_loses_its_transaction(
        self, monkeypatch: Any
    ) -> None:
        if connection.vendor != "postgresql":
            pytest.skip(f"asks PostgreSQL when it ends a transaction, not {connection.vendor}")
        leader, other, move, found = another(), another(), SqlPositions.move, list[str]()
        for one in (leader, other):
            one.add("hits:home", 1)
            turn(one)

        def asked(self: Any, moves: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SHOW idle_in_transaction_session_timeout")
                found.append(cursor.fetchone()[0])
            move(self, moves)

        monkeypatch.setattr(SqlPositions, "move", asked)
        turn(leader)
        assert (landed(), found) == (2, ["3s"])

    def test_the_directory_of_the_leader_is_removed(self, root: Path) -> None:
        leader, other = another(), another()
        leader.add("hits:home", 1)
        for _ in range(2):
            turn(leader)
        for path in root.glob(".leader-*"):
            path.rmdir()
        leader.add("hits:home", 1)
        turn(leader)
        assert leader.leadership
        assert not leader.leadership.is_ours
        other.add("hits:home", 1)
        turn(other)
        assert other.leadership
        assert other.leadership.is_ours
        leader.flush()
        assert landed() == 2

    def test_whoever_is_asked_to_land_it_does(self, root: Path) -> None:
        """`flush_buffers`, and the end of a process, wait for no leader."""
        leader = another()
        leader.add("hits:home", 100)
        turn(leader)
        Counter.objects.increment("hits:home", 7)
        turn(own())
        assert Counter.objects.flush_buffers() == 1
        assert landed() == 7
        turn(leader)
        assert (landed(), files(root)) == (107, [])
