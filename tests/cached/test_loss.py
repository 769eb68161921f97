"""What Redis lost is found at the next flush, and what it kept is landed once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from django_counters.cached.flush import flush
from django_counters.cached.sources import pending_in, slots_of
from django_counters.models import Counter, CounterIncident
from django_counters.redis.keys import PLACES, SLOTS, slot_of
from django_counters.testing import override_counters
from django_counters.types import Delta
from tests.cached.test_flush import KEYS, Killed, kill_at, stored
from tests.redis.servers import Server, needs_redis, running

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
Kind = CounterIncident.Kind


class TestLoss:
    """What Redis loses cannot be had again, but it is known."""

    @pytest.fixture(autouse=True)
    def known(self, cached: str) -> None:
        """Each slot was seen by a flush, and holds something again."""
        Counter.objects.increment_many(dict.fromkeys(KEYS, 1))
        flush()
        Counter.objects.increment_many(dict.fromkeys(KEYS, 10))
        assert {slot_of(key) for key in KEYS} == set(range(SLOTS))

    def lost(self) -> set[str]:
        return {i.subject for i in CounterIncident.objects.filter(kind=Kind.LOST)}

    @pytest.mark.parametrize("goes_on", [False, True])
    def test_all_of_it(self, cached: str, server: Any, goes_on: bool) -> None:
        for slot in range(SLOTS):
            server.delete(*slots_of("default", cached).keys(slot))
        more = 100 if goes_on else 0
        if goes_on:
            Counter.objects.increment_many(dict.fromkeys(KEYS, more))
        report = flush()
        assert self.lost() == {f"default [{slot}]" for slot in range(SLOTS)}
        assert len(report.incidents) == SLOTS
        assert set(Counter.objects.values_of(KEYS).values()) == {1 + more}
        Counter.objects.increment_many(dict.fromkeys(KEYS, 100))
        assert flush().incidents == []
        assert stored() == dict.fromkeys(KEYS, 101 + more)

    def test_an_open_generation(self, cached: str, server: Any) -> None:
        server.delete(slots_of("default", cached).keys(5)[0])
        assert flush().incidents
        assert self.lost() == {"default [5]"}
        for key in KEYS:
            assert stored()[key] == (1 if slot_of(key) == 5 else 11)

    def test_a_sealed_generation(self, cached: str, server: Any) -> None:
        with pytest.raises(Killed):
            flush(step=kill_at("read"))
        (place,) = [k for k in slots_of("default", cached).keys(5)[2:] if server.exists(k)]
        server.delete(place)
        Counter.objects.increment_many(dict.fromkeys(KEYS, 100))
        found = Counter.objects.values_of(KEYS, consistency="cached", max_age=600)
        for key in KEYS:
            assert found[key] == (101 if slot_of(key) == 5 else 111)
        flush()
        assert self.lost() == {"default [5]"}
        for key in KEYS:
            assert stored()[key] == (101 if slot_of(key) == 5 else 111)

    def test_a_sealed_generation_that_has_landed_is_no_loss(self, cached: str, server: Any) -> None:
        with pytest.raises(Killed):
            flush(step=kill_at("acknowledge"))
        (place,) = [k for k in slots_of("default", cached).keys(5)[2:] if server.exists(k)]
        server.delete(place)
        assert flush().incidents == []
        assert (self.lost(), stored()) == (set(), dict.fromkeys(KEYS, 11))
        found = Counter.objects.values_of(KEYS, consistency="cached")
        assert set(found.values()) == {11}

    def test_what_landed_meanwhile_is_in_cached_reads(self, cached: str, server: Any) -> None:
        """All is lost while a flush applies it, a total is asked for, and the flush dies."""

        def unlucky(step: str) -> None:
            if step == "apply" and not read:
                for slot in range(SLOTS):
                    server.delete(*slots_of("default", cached).keys(slot))
                read.update(Counter.objects.values_of(KEYS, consistency="cached", max_age=600))
            kill_at("acknowledge")(step)

        read: dict[str, int] = {}
        with pytest.raises(Killed):
            flush(step=unlucky)
        assert set(read.values()) == {1}
        flush()
        assert self.lost() == {f"default [{slot}]" for slot in range(SLOTS)}
        assert stored() == dict.fromkeys(KEYS, 11)
        found = Counter.objects.values_of(KEYS, consistency="cached", max_age=600)
        assert found == dict.fromkeys(KEYS, 11)

    def test_known_totals_are_no_loss(self, cached: str, server: Any) -> None:
        Counter.objects.values_of(KEYS, consistency="cached")
        for slot in range(SLOTS):
            server.delete(slots_of("default", cached).keys(slot)[1])
        assert set(Counter.objects.values_of(KEYS, consistency="cached").values()) == {11}
        assert flush().incidents == []
        assert stored() == dict.fromkeys(KEYS, 11)


@needs_redis
class TestAnotherHistory:
    """A server that restarted, or another one that took over, has another history."""

    @pytest.fixture
    def own(self, tmp_path: Path) -> Iterator[Server]:
        with running(tmp_path, ("--save", "")) as (server,):
            url = f"redis://127.0.0.1:{server.port}/0"
            views = {"STRATEGY": "cached", "CACHE": url, "OPTIONS": {"timeout": 10}}
            with override_counters(views=views):
                flush()
                yield server

    def change(self, server: Server) -> None:
        """What was a replica for a moment has a new history."""
        server("REPLICAOF", "127.0.0.1", 1)
        server("REPLICAOF", "NO", "ONE")

    def test_nothing_is_counted_twice(self, own: Server) -> None:
        for turn in range(1, 4):
            Counter.objects.increment("views:a")
            assert Counter.objects.values_of(["views:a"], consistency="cached")
            self.change(own)
            assert Counter.objects.increment("views:a") == 2 * turn
            assert any(told.startswith("history") for told in flush().incidents)
            assert stored() == {"views:a": 2 * turn}
        assert flush().incidents == []
        kinds = set(CounterIncident.objects.values_list("kind", flat=True))
        assert kinds == {Kind.HISTORY}

    def test_a_ring_that_is_full_takes_no_more_and_the_ledger_does(self, own: Server) -> None:
        for _ in range(PLACES):
            Counter.objects.increment("views:a")
            self.change(own)
        Counter.objects.increment("views:a")
        waiting = pending_in(f"redis://127.0.0.1:{own.port}/0", 10, "default").waiting()
        assert waiting[slot_of("views:a")].places == PLACES
        assert Counter.objects.value("views:a") == PLACES + 1
        self.change(own)
        told: Any = Counter.objects.increment("views:a", 100)
        assert "Redis is away" in told.reason
        assert Counter.objects.value("views:a") == PLACES + 101
        flush()
        flush()
        assert Counter.objects.increment("views:a") == PLACES + 102
        flush()
        assert Counter.objects.value("views:a") == PLACES + 102

    def test_thousands_in_any_number_are_read_to_the_end(self, own: Server) -> None:
        """The last page of a large hash may be empty."""
        for number in range(12):
            keys = list(islice(_of_slot_anew(number), 996))
            pending = pending_in(f"redis://127.0.0.1:{own.port}/0", 10, "default")
            pending.send(pending.add({key: Delta(key, 1) for key in keys}, -1))
            assert flush().counters == 996


def _of_slot_anew(number: int) -> Iterator[str]:
    """Keys of one slot, others for each number."""
    names = (f"views:{number}:{each}" for each in count())
    return (name for name in names if slot_of(name) == 0)
