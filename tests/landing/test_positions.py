"""A page between two positions is landed once, however many have read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from django.db.transaction import TransactionManagementError

from django_counters.errors import CounterUnavailable
from django_counters.landing import land
from django_counters.models import Counter, CounterBatch, CounterIncident, CounterPosition
from django_counters.registry import registry
from django_counters.stores.base import Move, Parcel
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.positions import Moved, Position
from django_counters.testing import assert_counts
from tests.concurrency.victims import victims
from tests.stores.test_failures import beside, wait_for_lock

pytestmark = pytest.mark.django_db(transaction=True)
STATEMENTS = 60


def page(sums: Mapping[str, int], *moves: tuple[str, str, str], timeline: str = "") -> Parcel:
    made = [Move("clicks", part, before, after, timeline) for part, before, after in moves]
    return Parcel("", "clicks", sums, moves=made)


def positions() -> dict[str, str]:
    return {part: at for part, (at, _) in registry.positions("default").of("clicks").items()}


def test_pages_land_in_order_and_once() -> None:
    first, second = page({"a": 3}, ("0", "", "10")), page({"a": 4, "b": 1}, ("0", "10", "30"))
    with pytest.raises(Moved):
        land(second)
    assert positions() == {}
    assert land(first).parcels == 1
    assert land(second).counters == 2
    for again in (first, second):
        with pytest.raises(Moved) as caught:
            land(again)
        assert caught.value.moves == tuple(again.moves)
    assert_counts({"a": 7, "b": 1})
    assert positions() == {"0": "30"}
    assert not CounterBatch.objects.exists()


def test_all_positions_of_a_page_move_or_none() -> None:
    land(page({"a": 1}, ("0", "", "10"), ("1", "", "7")))
    mixed = page({"a": 5}, ("0", "10", "20"), ("1", "6", "9"), ("2", "", "3"))
    with pytest.raises(Moved) as caught:
        land(mixed)
    assert [move.part for move in caught.value.moves] == ["1"]
    assert str(caught.value) == "clicks [1] 6 to 9"
    assert positions() == {"0": "10", "1": "7"}
    assert_counts({"a": 1})


def test_a_position_belongs_to_its_source_and_its_timeline() -> None:
    land(page({"a": 1}, ("0", "", "10"), timeline="t1"))
    with pytest.raises(Moved):
        land(page({"a": 1}, ("0", "10", "20"), timeline="t2"))
    with pytest.raises(Moved):
        land(page({"a": 1}, ("0", "", "20"), timeline="t1"))
    other = Parcel("", "other", {"a": 1}, moves=[Move("other", "0", "", "4")])
    assert land(other).parcels == 1
    registry.positions("default").put("clicks", "0", Position("0", "t2"))
    assert land(page({"a": 1}, ("0", "0", "20"), timeline="t2")).parcels == 1
    assert registry.positions("default").of("clicks") == {"0": Position("20", "t2")}
    assert_counts({"a": 3})


def test_a_row_that_waits_for_its_first_page() -> None:
    known = registry.positions("default")
    known.make("clicks", "0")
    known.make("clicks", "0")
    assert known.of("clicks") == {"0": Position()}
    assert land(page({"a": 2}, ("0", "", "5"), timeline="t1")).parcels == 1
    known.make("clicks", "0")
    assert known.of("clicks") == {"0": Position("5", "t1")}


def test_without_a_transaction_nothing_moves() -> None:
    known = registry.positions("default")
    with pytest.raises(TransactionManagementError):
        known.move([Move("clicks", "0", "", "5")])
    with pytest.raises(TransactionManagementError):
        known.hold("clicks", "0")
    assert positions() == {}


@pytest.mark.parametrize(
    "parcel",
    [
        Parcel("0" * 32, "clicks", {"a": 1}, moves=[Move("clicks", "0", "", "5")]),
        page({"a": 1}, ("0", "", "5"), ("0", "5", "6")),
        page({"a": 1}, ("0", "5", "5")),
    ],
)
def test_what_could_be_taken_for_something_else_is_refused(parcel: Parcel) -> None:
    with pytest.raises(ValueError, match=r"positions|another part"):
        land(parcel)
    assert positions() == {}
    assert_counts({"a": 0})


def test_what_is_refused_is_told_with_the_positions() -> None:
    landed = land(page({"no key": 3, "a": 1}, ("0", "", "5")))
    assert landed.quarantined == {"no key": 3}
    (incident,) = CounterIncident.objects.all()
    assert incident.detail["generations"] == ["clicks [0] the beginning to 5"]
    assert positions() == {"0": "5"}


def test_a_rollback_leaves_the_position() -> None:
    registry.positions("default").make("clicks", "0")
    with pytest.raises(ZeroDivisionError), registry.kept(SqlBatches, "default").landing():
        registry.positions("default").move([Move("clicks", "0", "", "5")])
        registry.kept(SqlBatches, "default").land_named({"a": 5})
        raise ZeroDivisionError
    assert positions() == {"0": ""}
    assert_counts({"a": 0})


@pytest.mark.many_writers
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("before", ["", "5"])
def test_two_who_land_it_at_once(before: str, commits: bool) -> None:
    """The second one waits, and learns what has become of the first one."""
    if before:
        land(page({}, ("0", "", before)))
    same = page({"a": 5}, ("0", before, "9"))
    with beside() as call:
        try:
            with registry.kept(SqlBatches, "default").landing():
                registry.positions("default").move(same.moves)
                registry.kept(SqlBatches, "default").land_named(same.sums)
                second = call(partial(land, same))
                wait_for_lock()
                if not commits:
                    raise CounterUnavailable(using="default", reason="it is gone")
        except CounterUnavailable:
            assert not commits
        if commits:
            with pytest.raises(Moved):
                second.result(30)
        else:
            assert second.result(30).parcels == 1
    assert_counts({"a": 5})
    assert positions() == {"0": "9"}


@pytest.mark.many_writers
def test_parts_move_in_one_order() -> None:
    """Else two who move the same parts wait for each other."""
    parts = [(part, "", "1") for part in "ab"]
    land(page({}, *parts))
    known, batches = registry.positions("default"), registry.kept(SqlBatches, "default")
    with beside() as call:
        with batches.landing():
            known.move([Move("clicks", "a", "1", "2")])
            both = page({"a": 1}, ("b", "1", "2"), ("a", "1", "2"))
            other: Future[Any] = call(partial(land, both))
            wait_for_lock()
            known.move([Move("clicks", "b", "1", "2")])
        with pytest.raises(Moved):
            other.result(30)
    assert_counts({"a": 0})


@pytest.mark.many_writers
def test_a_part_is_held_by_one() -> None:
    known, batches = registry.positions("default"), registry.kept(SqlBatches, "default")
    for part in "ab":
        known.make("clicks", part)

    def held() -> Sequence[Position | None]:
        with batches.landing():
            return [known.hold("clicks", part) for part in "abc"]

    call: Callable[[Callable[[], Any]], Future[Any]]
    with beside() as call:
        with batches.landing():
            assert known.hold("clicks", "a") == Position()
            assert call(held).result(30) == [None, Position(), None]
        assert call(held).result(30) == [Position(), Position(), None]


@pytest.mark.many_writers
def test_killed_after_any_statement_all_of_it_is_there_or_nothing() -> None:
    same = page({"a": 5}, ("0", "", "5"))
    with victims(partial(land, same)) as kill:
        for statement in range(1, STATEMENTS):
            sql = kill(statement)
            if sql is None:
                break
            assert (Counter.objects.value("a"), positions()) == (0, {})
    assert sql is None, "a landing has more statements than were tried"
    with pytest.raises(Moved):
        land(same)
    assert_counts({"a": 5})
    assert positions() == {"0": "5"}


def test_the_table_says_when_it_moved() -> None:
    land(page({}, ("0", "", "5"), timeline="t1"))
    row = CounterPosition._base_manager.get()
    assert str(row) == "clicks [0] 5"
    assert abs((registry.kept(SqlBatches, "default").now() - row.moved_at).total_seconds()) < 60
