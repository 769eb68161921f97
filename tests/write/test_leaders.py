"""Who leads the processes that have buffers in one directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from django_counters.signals import batch_applied
from django_counters.testing import override_counters
from django_counters.write.landing import InDatabase
from tests.write import filing
from tests.write.buffering import landed
from tests.write.filing import _inner, _root, files  # noqa: F401 - fixtures
from tests.write.leaders import another, sums, turn

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("cached"),
]
in_database = pytest.mark.parametrize("inner", ["exact", "sharded"], indirect=True)


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
        self, root: Path, inner: str, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(filing.lander_of(inner), "size", 2)
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

    @in_database
    def test_many_files_are_several_transactions(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(InDatabase, "size", 2)
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
