"""Cached counters of processes that have buffers in one directory: what Redis gets of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from django_counters.models import Counter, CounterIncident
from django_counters.signals import batch_applied
from django_counters.stores.redis.keys import slot_of
from django_counters.strategies.cached import Cached
from django_counters.write import landing
from django_counters.write.page import deltas_in
from tests.write.buffering import landed
from tests.write.filing import _inner, _root, files  # noqa: F401 - fixtures
from tests.write.leaders import another, handed_over, own, sums, turn

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("cached"),
    pytest.mark.parametrize("inner", ["cached"], indirect=True),
]


def _keys(space: str) -> Iterator[str]:
    return (f"{space}:{number}" for number in count())


# Three counters, in the order in which their slots are landed.
IN_SLOTS = [next(key for key in _keys("hits") if slot_of(key) == slot) for slot in (0, 5, 9)]


def test_no_page_is_sent_twice(monkeypatch: Any) -> None:
    keys, sent, land = [f"hits:{number}" for number in range(40)], list[int](), Cached.land

    def counted(self: Any, pages: Any, deltas: Any) -> bool:
        sent.append(len(pages))
        return land(self, pages, deltas)

    monkeypatch.setattr(Cached, "land", counted)
    crew = [another() for _ in range(3)]
    for _ in range(2):
        for one in crew:
            for key in keys:
                one.add(key, 1)
            turn(one)
        for one in crew:
            turn(one)
    assert sent == [3] * 2 * len(set(map(slot_of, keys)))
    assert {landed(key) for key in keys} == {6}


def test_what_cancels_out_is_counted(root: Path) -> None:
    """Nothing can be sent for a sum of zero; what is in other slots is landed all the same."""
    leader, other = another(), another()
    for one, by in ((leader, 5), (other, -5)):
        for key in IN_SLOTS:
            one.add(key, by if key == IN_SLOTS[0] else 3)
        turn(one)
    turn(leader)
    assert ([landed(key) for key in IN_SLOTS], files(root)) == ([0, 6, 6], [])
    turn(other)
    assert ([landed(key) for key in IN_SLOTS], other.amounts()) == ([0, 6, 6], {})


def test_what_one_slot_has_no_room_for_stops_no_other(root: Path) -> None:
    leader, other = another(), another()
    for one in (leader, other):
        for key in IN_SLOTS:
            one.add(key, 3 * 2**60 if key == IN_SLOTS[0] else 3)
        turn(one)
    turn(leader)
    assert ([landed(key) for key in IN_SLOTS], len(files(root))) == ([3 * 2**60, 6, 6], 1)


def test_the_file_of_what_is_counted_stops_nothing(root: Path, monkeypatch: Any) -> None:
    """Its leader was killed before it could remove it, and its process is stopped."""
    leader, _ = handed_over()
    with monkeypatch.context() as patch:

        def refused(*_: object, **__: object) -> None:
            raise PermissionError

        patch.setattr(Path, "unlink", refused)
        turn(leader)
    (left,) = [file for file in files(root) if file.name.endswith(".sealed")]
    third, told = another(), list[Any]()
    listen = sums(told)
    try:
        for number in range(1, 4):
            left.touch()
            for one in (leader, third):
                one.add("hits:home", 10)
                turn(one)
            turn(leader)
            turn(third)
            assert (landed(), third.amounts()) == (107 + 20 * number, {})
    finally:
        batch_applied.disconnect(listen)
    assert told == [{"hits:home": 20}] * 3


@pytest.mark.parametrize("late", [False, True])
def test_receivers_hear_once(monkeypatch: Any, late: bool) -> None:
    """Also where the process of a page lands it before, or after, its leader."""
    told, land = list[Any](), Cached.land
    leader, other = another(), another()
    leader.add(IN_SLOTS[0], 1)
    other.add(IN_SLOTS[1], 7)
    for one in (leader, other):
        turn(one)

    def overtaken(self: Any, pages: Any, deltas: Any) -> bool:
        monkeypatch.setattr(Cached, "land", land)
        other.flush()
        return land(self, pages, deltas)

    if late:
        monkeypatch.setattr(Cached, "land", overtaken)
    listen = sums(told)
    try:
        turn(leader)
        other.flush()
    finally:
        batch_applied.disconnect(listen)
    assert [landed(key) for key in IN_SLOTS[:2]] == [1, 7]
    assert sorted(told, key=str) == sorted([{IN_SLOTS[0]: 1}, {IN_SLOTS[1]: 7}], key=str)


def test_what_its_process_would_refuse_is_not_landed_for_it(monkeypatch: Any) -> None:
    """That process lands halves, as a sum of its own has more than 64 bits."""
    for country in "AB":
        Counter.objects.increment("seen:home", tags={"country": country})
    beside = next(key for key in _keys("seen") if slot_of(key) == slot_of("seen:home"))
    Counter.objects.increment(beside)
    entries = list(own("seen:home").entries)
    own("seen:home").begin()
    leader, other, land = another("seen:home"), another("seen:home"), Cached.land
    leader.add(entries[0], -(2**62))
    for entry, by in zip(entries, (2**62, 2**62, 1), strict=True):
        other.add(entry, by)
    for one in (leader, other):
        turn(one)

    def late(self: Any, pages: Any, deltas: Any) -> bool:
        monkeypatch.setattr(Cached, "land", land)
        other._patience = time.monotonic()
        turn(other)
        return land(self, pages, deltas)

    monkeypatch.setattr(Cached, "land", late)
    turn(leader)
    other.flush()
    assert (landed(beside), landed("seen:home"), CounterIncident.objects.count()) == (
        1,
        -(2**62),
        1,
    )


def test_a_page_of_which_one_half_is_counted_is_not_marked() -> None:
    one = another()
    keys = list(islice((key for key in _keys("hits") if slot_of(key) == 3), 2))
    for key in keys:
        one.add(key, 1)
    one._part()
    (page,) = list(one._seal())
    page.halved.add(page.id)
    (name, half), _ = landing._named_halves(page.id, deltas_in(page.entries))
    assert one.lander._land(page, name, half) == half  # type: ignore[attr-defined]
    landing.mark([page], one.lander)
    one.flush()
    assert [landed(key) for key in keys] == [1, 1]


def test_each_page_is_told_apart() -> None:
    """Some pages were counted and some were not; those of one slot do not stand side by side."""
    crew, places = [another(), another()], []
    for one in crew:
        for number in range(40):
            one.add(f"hits:{number}", 1)
        one._part()
        places += [(page, page.first) for page in one._seal()]
    assert len(places) > 20
    for page, _ in places[::3]:
        crew[0].lander.land(page)
    asked = places + places[::-1]
    expected = [page in [counted for counted, _ in places[::3]] for page, _ in asked]
    assert list(crew[0].lander.have_landed(asked)) == expected
