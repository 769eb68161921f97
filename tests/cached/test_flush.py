"""The flush: what waits in Redis is landed exactly once, and what Redis lost is found."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from datetime import timedelta
from itertools import count, islice
from typing import Any
from unittest import mock

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.cached.flush import FlushReport, flush
from django_counters.cached.sources import pending_in, slots_of
from django_counters.models import Counter, CounterIncident
from django_counters.redis import keys
from django_counters.redis.keys import PLACES, slot_of
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import INT8, Delta

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
STEPS = ["look", "cut", "judge", "read", "apply", "acknowledge", "acknowledged"]
KEYS = [f"views:{number}" for number in range(50)]
Kind = CounterIncident.Kind


class Killed(BaseException):
    """Ends a flush where it stands."""


def kill_at(wanted: str, time: int = 1) -> Callable[[str], None]:
    """A step that ends the flush when it comes to ``wanted`` for so many times."""
    met: Tally[str] = Tally()

    def step(name: str) -> None:
        met[name] += 1
        if name == wanted and met[name] == time:
            raise Killed

    return step


def of_slot(slot: int, how_many: int) -> list[str]:
    """Keys of counters that all stand in one slot."""
    names = (f"views:{number}" for number in count())
    return list(islice((name for name in names if slot_of(name) == slot), how_many))


def stored() -> dict[str, int]:
    return dict(Counter._base_manager.values_list("key", "value"))


class TestOnce:
    def test_it_is_repeated(self) -> None:
        Counter.objects.increment_many(dict.fromkeys(KEYS, 2))
        Counter.objects.decrement("views:neg", 3)
        report = flush()
        assert (report.counters, report.quarantined, report.incidents) == (51, {}, [])
        assert report.generations == len({slot_of(key) for key in (*KEYS, "views:neg")})
        for _ in range(3):
            assert flush() == FlushReport()
        assert stored() == {**dict.fromkeys(KEYS, 2), "views:neg": -3}

    def test_what_comes_to_nothing_makes_no_total(self) -> None:
        Counter.objects.increment("views:a", 2)
        Counter.objects.decrement("views:a", 2)
        assert flush().counters == 0
        assert stored() == {}

    @pytest.mark.parametrize("step", STEPS)
    def test_one_that_dies_is_finished_by_the_next(self, step: str) -> None:
        for round_ in range(1, 4):
            Counter.objects.increment_many(dict.fromkeys(KEYS, 1))
            with pytest.raises(Killed):
                flush(step=kill_at(step), largest=10)
            Counter.objects.increment_many(dict.fromkeys(KEYS, 10))
            assert set(Counter.objects.values_of(KEYS).values()) == {11 * round_}
            found = Counter.objects.values_of(KEYS, consistency="cached", max_age=600)
            assert set(found.values()) == {11 * round_}
            flush()
            assert stored() == dict.fromkeys(KEYS, 11 * round_)
            assert set(Counter.objects.values_of(KEYS).values()) == {11 * round_}
        assert not CounterIncident.objects.exists()

    def test_each_step_is_taken(self) -> None:
        steps: list[str] = []
        Counter.objects.increment("views:a")
        flush(step=steps.append)
        assert steps == STEPS

    def test_a_landing_that_was_overtaken_lands_nothing(self) -> None:
        """Another flush lands and removes what this one has read."""
        Counter.objects.increment("views:a", 5)

        def overtaken(name: str) -> None:
            if name == "apply":
                flush()
                Counter.objects.increment("views:a", 10)

        assert flush(step=overtaken).counters == 0
        assert (stored(), Counter.objects.value("views:a")) == ({"views:a": 5}, 15)
        flush()
        assert stored() == {"views:a": 15}

    def test_a_generation_that_is_replaced_while_it_is_read(self) -> None:
        Counter.objects.increment("views:a", 5)

        def replaced(name: str) -> None:
            if name == "read":
                flush()
                Counter.objects.increment("views:a", 10)
                with pytest.raises(Killed):
                    flush(step=kill_at("read"))

        flush(step=replaced)
        flush()
        assert stored() == {"views:a": 15}
        assert not CounterIncident.objects.exists()

    def test_alone(self) -> None:
        Counter.objects.increment("views:a")
        with pending_in("default", 10, "default").flight() as first:
            assert first
            report = flush(alone=True)
            assert (report.elsewhere, report.counters) == (["default"], 0)
            # One that is not asked to be alone is never wrong.
            assert flush().counters == 1
        Counter.objects.increment("views:a")
        assert flush(alone=True).counters == 1
        assert flush(alone=True).elsewhere == []

    def test_within_a_transaction_it_is_refused(self) -> None:
        for by in (0, 5):
            if by:
                Counter.objects.increment("views:a", by)
            with pytest.raises(RuntimeError), transaction.atomic():
                flush()
            assert pending_in("default", 10, "default").waiting()[slot_of("views:a")].places == 0
        flush()
        assert stored() == {"views:a": 5}

    def test_a_redis_that_is_away_does_not_stop_the_others(self) -> None:
        Counter.objects.increment("views:a")
        gone = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}
        with override_counters(gone=gone):
            report = flush()
        assert (list(report.away), report.counters) == (["127.0.0.1:1/0"], 1)


class TestTooMuch:
    def test_a_large_generation_is_sealed_before_the_flush(self) -> None:
        keys = of_slot(3, 5001)
        Counter.objects.increment(keys[0])
        Counter.objects.increment_many(dict.fromkeys(keys, 1))
        pending = pending_in("default", 10, "default")
        assert (pending.waiting()[3].places, pending.waiting()[3].open) == (1, 0)
        Counter.objects.increment_many({keys[0]: 1, keys[-1]: 1})
        assert pending.waiting()[3].open == 2
        found = Counter.objects.values_of([keys[0], keys[1], keys[-1]])
        assert list(found.values()) == [3, 1, 2]
        assert flush().counters == 5001 + 2
        assert stored() == {**dict.fromkeys(keys, 1), keys[0]: 3, keys[-1]: 2}

    def test_a_ring_that_is_full_still_takes_increments(self) -> None:
        keys = of_slot(3, 5000)
        for _ in range(PLACES + 2):
            Counter.objects.increment_many(dict.fromkeys(keys, 1))
        waiting = pending_in("default", 10, "default").waiting()[3]
        assert (waiting.places, waiting.open, waiting.sealed) == (PLACES, 5000, PLACES * 5000)
        assert Counter.objects.increment(keys[0]) == PLACES + 3
        flush()
        assert stored() == {**dict.fromkeys(keys, PLACES + 2), keys[0]: PLACES + 3}


class TestQuarantine:
    def test_what_does_not_fit_does_not_stop_its_neighbours(self) -> None:
        Counter._base_manager.create(key="views:full", value=INT8[1] - 1)
        Counter.objects.increment_many({"views:full": 2, "views:a": 3, "views:z": 4})
        report = flush()
        assert (report.quarantined, report.counters) == ({"views:full": 2}, 2)
        (incident,) = CounterIncident.objects.all()
        assert incident.kind == Kind.QUARANTINED
        assert (incident.detail["reason"], incident.detail["amounts"]) == (
            "overflow",
            {"views:full": 2},
        )
        assert stored() == {"views:full": INT8[1] - 1, "views:a": 3, "views:z": 4}
        assert Counter.objects.values_of(["views:full"], consistency="cached") == {
            "views:full": INT8[1] - 1
        }
        Counter.objects.increment("views:full")
        assert flush().quarantined == {}
        assert stored()["views:full"] == INT8[1]

    def test_a_known_total_that_would_overflow_does_not_hold_the_flush_up(self) -> None:
        big = 2**62
        Counter._base_manager.create(key="views:a", value=big)
        flush()
        Counter.objects.values_of(["views:a"], consistency="cached")
        Counter._base_manager.filter(key="views:a").update(value=0)
        Counter.objects.increment("views:a", big)
        assert flush().counters == 1
        assert flush() == FlushReport()
        assert stored() == {"views:a": big}
        found = Counter.objects.values_of(["views:a"], consistency="cached", max_age=600)
        assert found == {"views:a": big}

    @pytest.mark.parametrize("key", ["", "a" * 201, "e\u0301"])
    def test_what_is_no_key_is_an_incident(self, key: str) -> None:
        pending = pending_in("default", 10, "default")
        pending.send(pending.add({key: Delta(key, 5)}, -1))
        Counter.objects.increment("views:a")
        assert flush().quarantined == {key: 5}
        assert stored() == {"views:a": 1}

    def test_what_is_no_text_is_an_incident(self, cached: str, server: Any) -> None:
        Counter.objects.increment("views:a")
        key = slots_of("default", cached).keys(slot_of("views:a"))[0]
        token = f"\0k{mint(clock.utc()).hex}"
        server.hset(key, mapping={b"views:\xff": 5, "views:b": b"\xfe", token: b"5 views:\xff"})
        assert flush().quarantined == {"views:\\xff": 5}
        fields = {"views:b": "\\xfe", token.replace("\0", "\\0"): "5 views:\\xff"}
        assert CounterIncident.objects.filter(detail__fields=fields).count() == 1
        assert stored() == {"views:a": 1}
        assert flush().quarantined == {}

    @pytest.mark.parametrize("days", [-60, 60])
    def test_a_host_whose_clock_is_wrong_opens_one_of_today(self, days: int) -> None:
        wrong = clock.utc() + timedelta(days=days)
        with mock.patch.object(keys, "utc", return_value=wrong):
            Counter.objects.increment("views:a", 5)
        assert flush().quarantined == {}
        Counter.objects.increment("views:a")
        with mock.patch.object(clock, "utc", return_value=wrong):
            assert flush().quarantined == {}
        assert stored() == {"views:a": 6}

    def test_a_generation_of_long_ago_is_an_incident(self, cached: str, server: Any) -> None:
        slots = slots_of("default", cached)
        slot = slot_of("views:a")
        old = f"{mint(clock.utc() - timedelta(days=60)).hex[:30]}{slot:02x}"
        Counter.objects.increment("views:a", 5)
        server.hset(slots.keys(slot)[0], "\0g", old)
        report = flush()
        assert (report.quarantined, stored()) == ({"views:a": 5}, {})
        assert Counter.objects.value("views:a") == 0
