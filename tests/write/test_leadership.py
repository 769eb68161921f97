"""Buffers with files in one directory: one process lands what all of them have counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters.exceptions import CounterUnavailable
from django_counters.models import Counter, CounterIncident
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.stores.sql.positions import SqlPositions
from django_counters.testing import override_counters
from django_counters.types import INT8
from django_counters.write import landing
from django_counters.write.adopting import adopt
from django_counters.write.buffer import Buffer
from django_counters.write.buffers import buffers
from django_counters.write.change import named
from django_counters.write.files import files_of
from django_counters.write.landing import lander_of
from django_counters.write.leadership import leadership_of
from tests.write.buffering import landed
from tests.write.filing import _inner, _root, die, files  # noqa: F401 - fixtures

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("cached"),
    pytest.mark.parametrize("inner", ["exact", "sharded"], indirect=True),
]


def another(key: str = "hits:home") -> Buffer:
    """The buffer of another process: its locks and files are its own, and no thread lands it."""
    policy = registry.policy(key)
    assert policy.buffer
    files = files_of(policy.recipe, policy.buffer, "default")
    lander = lander_of(policy.recipe, "default")
    leadership = leadership_of(files, lander, policy.buffer)
    return Buffer(
        policy.buffer,
        lander,
        lambda: True,
        measured=policy.measure is not None,
        files=files,
        leadership=leadership,
    )


def own() -> Buffer:
    """The buffer of this process."""
    return buffers.of(named("hits:home", "default"))


def turn(buffer: Buffer) -> None:
    """Let a process take its next step, as its thread does when that is due."""
    with buffer.landing:
        buffer._attempt()


def handed_over() -> tuple[Buffer, Buffer]:
    """One that leads and has 100, and one that has let it have its 7."""
    leader, other = another(), another()
    leader.add("hits:home", 100)
    other.add("hits:home", 7)
    for one in (leader, other):
        turn(one)
    return leader, other


def sums(told: list[Any]) -> Callable[..., None]:
    def listen(batch: Any, **_: object) -> None:
        told.append({str(delta.key): delta.by for delta in batch.deltas})

    batch_applied.connect(listen, weak=False)
    return listen


def test_one_lands_what_all_have_counted(root: Path) -> None:
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
    # One sum of each counter, and one transaction.
    assert told == [{"hits:0": 1, "hits:1": 1, "hits:2": 1, "hits:3": 1, "hits:home": 1111}]
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


def test_a_read_asks_once_for_all_counters_of_a_page() -> None:
    keys = [f"hits:{number}" for number in range(50)]
    leader = another()
    leader.add("hits:home", 1)
    turn(leader)
    Counter.objects.increment_many(dict.fromkeys(keys, 1))
    turn(own())
    with CaptureQueriesContext(connection) as queries:
        assert set(Counter.objects.values_of(keys).values()) == {1}
    # The position before, the values, the position afterwards.
    assert len(queries) == 3


def test_a_read_meets_the_landing_of_its_leader(monkeypatch: Any) -> None:
    other, found = another(), list[int]()
    Counter.objects.increment("hits:home", 7)
    turn(own())
    other.add("hits:home", 100)
    turn(other)
    together = landing.InDatabase.land_together

    def read(self: Any, pages: Any) -> None:
        together(self, pages)
        found.append(Counter.objects.value("hits:home"))

    monkeypatch.setattr(landing.InDatabase, "land_together", read)
    turn(own())
    assert set(found) == {107}


class TestTrouble:
    """No process depends on its leader."""

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

    def test_the_leader_cannot_land(self, root: Path, monkeypatch: Any) -> None:
        leader, other = handed_over()
        with monkeypatch.context() as patch:

            def away(*_: object) -> None:
                raise CounterUnavailable(using="default", reason="away")

            patch.setattr(SqlPositions, "move", away)
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

    def test_what_does_not_fit_stops_nothing_that_does(self) -> None:
        """The first one fits, and both together do not."""
        leader, other = another(), another()
        for one in (leader, other):
            one.add("hits:home", INT8[1])
            one.add("hits:b", 1)
            turn(one)
        turn(leader)
        other._patience = time.monotonic()
        turn(other)
        assert (landed(), landed("hits:b")) == (INT8[1], 2)
        (incident,) = CounterIncident.objects.all()
        assert incident.detail["amounts"] == {"hits:home": INT8[1]}
        assert len(incident.detail["generations"]) == 1

    def test_an_error_that_nobody_has_foreseen_in_what_others_have(self, monkeypatch: Any) -> None:
        leader, other = handed_over()
        together = landing.InDatabase.land_together

        def poisoned(self: Any, pages: Any) -> None:
            if len(pages) > 1:
                raise ZeroDivisionError
            together(self, pages)

        monkeypatch.setattr(landing.InDatabase, "land_together", poisoned)
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


class TestWhoLeads:
    def test_who_counts_nothing_lets_another_one_lead(self) -> None:
        first, second = another(), another()
        first.add("hits:home", 1)
        for _ in range(4):
            turn(first)
        assert (landed(), first.due()) == (1, None)
        second.add("hits:home", 1)
        turn(second)
        assert second.leadership
        assert second.leadership.is_ours

    def test_a_leader_looks_for_files_also_where_it_counts_nothing(self) -> None:
        leader, other = another(), another()
        leader.add("hits:home", 1)
        for _ in range(2):
            turn(leader)
        assert leader.leadership
        assert leader.due() == leader.leadership.next_turn
        other.add("hits:home", 7)
        turn(other)
        turn(leader)
        turn(leader)
        assert landed() == 8

    def test_all_end_their_intervals_at_once(self) -> None:
        leader, other = another(), another()
        assert leader.leadership
        assert other.leadership
        # There is no leader yet.
        assert other.leadership.end_of(1000.0) == 4600.0
        leader.add("hits:home", 1)
        turn(leader)
        ends = leader.leadership.next_turn
        for since, end in ((ends - 3599, ends), (ends - 1, ends), (ends + 1, ends + 3600)):
            assert other.leadership.end_of(since) == pytest.approx(end, abs=1e-3)

    def test_another_strategy_has_a_leader_of_its_own(self, root: Path, inner: str) -> None:
        leader = another()
        strategy = "sharded" if inner == "exact" else "exact"
        buffer = {"seconds": 3600, "directory": str(root)}
        with override_counters(hits={"STRATEGY": strategy, "BUFFER": buffer}):
            apart = [another(), another()]
        for one in (leader, *apart):
            one.add("hits:home", 1)
            turn(one)
        assert apart[0].leadership
        assert apart[0].leadership.is_ours
        turn(leader)
        assert (landed(), len(files(root))) == (1, 2)
        turn(apart[0])
        assert (landed(), files(root)) == (3, [])

    def test_more_than_a_page_is_landed_by_its_own_process(
        self, root: Path, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(landing.InDatabase, "size", 2)
        leader, other = another(), another()
        leader.add("hits:home", 1)
        for number in range(40):
            other.add(f"hits:{number}", 1)
        for one in (leader, other):
            turn(one)
        assert {landed(f"hits:{number}") for number in range(40)} == {1}
        assert other.amounts() == {}
        turn(leader)
        assert (landed(), files(root)) == (1, [])

    def test_many_files_are_several_transactions(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(landing.InDatabase, "size", 2)
        crew, told = [another() for _ in range(5)], list[Any]()
        for one in crew:
            one.add("hits:home", 1)
            turn(one)
        listen = sums(told)
        try:
            turn(crew[0])
        finally:
            batch_applied.disconnect(listen)
        assert [one["hits:home"] for one in told] == [2, 2, 1]
        assert landed() == 5
