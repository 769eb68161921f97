"""Searches through all that waits: page by page, and exact while others count and flush."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from django_counters.cached.store import CellSearch
from django_counters.contrib.series.options import SUM, period_cell, period_in
from django_counters.contrib.uniques.options import MEMBER
from django_counters.errors import CounterUnavailable
from django_counters.redis.keys import PLACES, slot_of
from django_counters.stores.base import PendingField
from django_counters.types import Cell, Delta, Effect
from tests.cached.scripts.test_pending import Bench

COUNTER, OTHER = "a.B.c 1", "a.B.c 2"
# Some pages.
MANY = 2000
START = datetime(2026, 11, 27, tzinfo=UTC)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(os.environ["REDIS_URL"])
    yield made
    made.close()


def day(tags: str = "", member: int = 0) -> Cell:
    return (
        Cell(MEMBER, (1, 3, START, tags, member)) if member else period_cell(SUM, 1, 3, START, tags)
    )


def count(bench: Bench, counter: str, *cells: Cell, by: int = 1) -> None:
    effects = tuple(Effect(cell, by) for cell in cells)
    bench.send(bench.pending.add({counter: Delta(counter, by, effects=effects)}, -1))


def crowd(bench: Bench) -> None:
    """Add cells of another counter to the open generation of the slot, for some pages."""
    fields = {f"#1.3.5 {number} {OTHER}": 1 for number in range(MANY)}
    bench.direct.hset(bench.slots.keys(slot_of(COUNTER))[0], mapping=fields)


def hashes(bench: Bench) -> list[dict[str, str]]:
    """The generations of the slot, the open one first."""
    return [bench.hash(slot_of(COUNTER), number) for number in (0, *range(2, 2 + PLACES))]


def fields_of(bench: Bench, counter: str) -> set[str]:
    return {name for one in hashes(bench) for name in one if name.endswith(counter)}


def seal(bench: Bench, times: int = 1) -> None:
    """Seal generations in which another counter waits, up to so many."""
    keys = bench.slots.keys(slot_of(COUNTER))
    for number in range(times):
        count(bench, COUNTER)
        bench.direct.rename(keys[0], keys[2 + number])


class TestCellsOfDeletedRecords:
    def discard(self, bench: Bench) -> list[CellSearch]:
        return list(bench.send(bench.pending.discard([COUNTER])))

    def drain(self, bench: Bench, search: CellSearch | None) -> int:
        pages = 0
        while search:
            search, pages = bench.send(bench.pending.discard_cells(search)), pages + 1
        return pages

    def test_go_page_by_page(self, bench: Bench) -> None:
        count(bench, COUNTER, *(day(str(tag)) for tag in range(300)))
        crowd(bench)
        (search,) = self.discard(bench)
        assert self.drain(bench, search) >= 3
        assert fields_of(bench, COUNTER) == set()
        assert len(fields_of(bench, OTHER)) == MANY

    def test_of_a_new_record_stay(self, bench: Bench) -> None:
        """A record with the key is made and counted between two pages."""
        count(bench, COUNTER, *(day(str(tag)) for tag in range(300)))
        crowd(bench)
        (search,) = self.discard(bench)
        left = bench.send(bench.pending.discard_cells(search))
        count(bench, COUNTER, *(day(str(tag)) for tag in range(300)))
        self.drain(bench, left)
        assert len(fields_of(bench, COUNTER)) == 301

    def test_go_if_it_is_sealed_between_two_pages(self, bench: Bench) -> None:
        count(bench, COUNTER, *(day(str(tag)) for tag in range(300)))
        crowd(bench)
        (search,) = self.discard(bench)
        left = bench.send(bench.pending.discard_cells(search))
        bench.pending.cut()
        count(bench, COUNTER, day("new"))
        self.drain(bench, left)
        assert {name.split(" ")[1] for name in fields_of(bench, COUNTER) if name[0] == "#"} == {
            "new"
        }


class TestPartsOfACounter:
    def parts(
        self, bench: Bench, between: Callable[[], object] = lambda: None
    ) -> tuple[dict[str, int], list[PendingField], int]:
        """Amounts by tags ("-": the counter), fields with actors, and the number of calls."""
        page, calls = bench.send(bench.pending.parts(COUNTER)), 1
        found, sets = [*page.amounts], [*page.sets]
        while page.rest:
            between()
            page, calls = bench.send(bench.pending.parts(COUNTER, page)), calls + 1
            found += page.amounts
            sets += page.sets
        sums: dict[str, int] = {}
        for _, cell, by in found:
            name = "-" if cell is None else period_in(cell).tags
            sums[name] = sums.get(name, 0) + by
        return sums, sets, calls

    def test_of_a_small_generation_come_at_once(self, bench: Bench) -> None:
        count(bench, COUNTER, day("DE"), day("DE", 5), by=3)
        sums, sets, calls = self.parts(bench)
        assert (sums, [one.field[-20:] for one in sets], calls) == (
            {"-": 3, "DE": 3},
            [f"#1.3.{int(START.timestamp())}.5 DE {COUNTER}"[-20:]],
            1,
        )
        assert bench.sealed() != []

    def test_of_a_large_one_are_of_one_moment(self, bench: Bench) -> None:
        tags = [str(tag) for tag in range(300)]
        count(bench, COUNTER, *map(day, tags))
        crowd(bench)
        sums, _, calls = self.parts(
            bench, lambda: count(bench, COUNTER, day("7"), day("new"), day("", 9))
        )
        assert sums == {"-": 1, **dict.fromkeys(tags, 1)}
        assert calls >= 4

    def test_in_a_full_ring_are_of_one_moment(self, bench: Bench) -> None:
        seal(bench, PLACES)
        tags = [str(tag) for tag in range(300)]
        count(bench, COUNTER, *map(day, tags))
        crowd(bench)
        sums, _, _ = self.parts(bench, lambda: count(bench, COUNTER, day("7"), day("new")))
        assert sums == {"-": 1 + PLACES, **dict.fromkeys(tags, 1)}

    def test_that_land_between_two_pages_are_left_to_the_database(self, bench: Bench) -> None:
        count(bench, COUNTER, day("DE"))
        bench.pending.cut()
        count(bench, COUNTER, day("FR"), by=5)
        page = bench.send(bench.pending.parts(COUNTER))
        bench.land()
        rest = bench.send(bench.pending.parts(COUNTER, page))
        assert ([by for *_, by in page.amounts], rest.amounts, rest.rest) == ([5, 5], [], [])

    def test_are_refused_if_the_server_restarts(self, bench: Bench) -> None:
        count(bench, COUNTER, day("DE"))
        bench.pending.cut()
        page = bench.send(bench.pending.parts(COUNTER))
        rest = [one._replace(history="f" * 40) for one in page.rest]
        with pytest.raises(CounterUnavailable):
            bench.send(bench.pending.parts(COUNTER, page._replace(rest=rest)))

    def test_come_once_if_the_server_repeats_a_field(self, bench: Bench) -> None:
        """HSCAN may do so if the hash shrinks between two pages."""
        count(bench, COUNTER, day("DE"), day("DE", 5), by=3)
        bench.pending.cut()
        start = bench.send(bench.pending.parts(COUNTER))
        first = bench.send(bench.pending.parts(COUNTER, start))
        assert (sorted(by for *_, by in first.amounts), len(first.sets)) == ([3, 3], 1)
        # Its cursor leads back to fields that were already read.
        again = bench.send(bench.pending.parts(COUNTER, first._replace(rest=start.rest)))
        assert (again.amounts, again.sets, again.rest) == ([], [], [])


class TestActorsOfAForgottenCounter:
    def forget(self, bench: Bench, between: Callable[[], object]) -> dict[str, Any]:
        """Read what waits, count, and take away what was read; the fields that are left."""
        page = bench.send(bench.pending.parts(COUNTER))
        sets = [*page.sets]
        while page.rest:
            page = bench.send(bench.pending.parts(COUNTER, page))
            sets += page.sets
        between()
        bench.send(bench.pending.discard_sets(COUNTER, sets))
        return {
            name.split(" ")[0].partition(f".{int(START.timestamp())}")[2] or name[:2]: by
            for one in hashes(bench)
            for name, by in one.items()
            if name[0] == "#"
        }

    def test_stay_if_they_were_seen_since(self, bench: Bench) -> None:
        count(bench, COUNTER, day("", 5), day("", 6))
        left = self.forget(bench, lambda: count(bench, COUNTER, day("", 6), day("", 7)))
        assert left == {".6": "1", ".7": "1", "#n": "2"}

    def test_go_if_their_generation_was_sealed_since(self, bench: Bench) -> None:
        count(bench, COUNTER, day("", 5))

        def cut() -> None:
            bench.pending.cut()
            count(bench, COUNTER, day("", 5))

        assert self.forget(bench, cut) == {".5": "1", "#n": "1"}

    def test_that_are_too_many_to_be_named_go(self, bench: Bench) -> None:
        count(bench, COUNTER, *(day("", 1 + 2**14 * member) for member in range(1, 600)))
        assert self.forget(bench, lambda: None) == {}
