"""Cached counters that return nothing: no total is asked for, and all else is as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import pending_in, slots_of
from django_counters.contrib import series
from django_counters.errors import CounterOverflow, TokenConflict, UnsupportedBounds
from django_counters.models import Counter, CounterIncident
from django_counters.redis.keys import SLOTS, slot_of
from django_counters.signals import batch_applied
from django_counters.stores.sql.dialects import dialect_of
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import Batch, Unknown, result_of
from tests.cached.test_away import DEAD, database_away
from tests.cached.test_fields import column
from tests.cached.test_flush import KEYS, STEPS, Killed, kill_at, of_slot, stored
from tests.cached.test_round_trips import watched
from tests.redis.servers import Server, needs_redis, running
from tests.testapp.models import Article

pytestmark = pytest.mark.django_db(transaction=True)
NOTHING = {"timeout": 10, "returns": "nothing"}
VIEWS: dict[str, Any] = {"STRATEGY": "cached", "OPTIONS": NOTHING}
EARLY = 5000


@pytest.fixture(autouse=True)
def nothing(cached: str) -> Iterator[str]:
    """The namespace ``views`` asks for no totals."""
    with override_counters(views=VIEWS):
        yield cached


def told(result: Any) -> tuple[type, Any, str, bool]:
    return type(result), result.value, result.reason, result.replayed


UNASKED = (Unknown, None, Unknown.UNASKED, False)


class TestResults:
    def test_a_change_says_that_it_is_counted_and_no_value(self) -> None:
        result = Counter.objects.increment("views:a", 3)
        assert told(result) == UNASKED
        assert (f"{result:,}", json.dumps({"views": result})) == ("unknown", '{"views": "unknown"}')
        assert result_of(result) is result
        assert isinstance(result, Unknown)
        assert result.key == "views:a"
        assert told(Counter.objects.decrement("views:a")) == UNASKED
        assert Counter.objects.value("views:a") == 2

    def test_many(self) -> None:
        values = Counter.objects.increment_many({"views:a": 1, "views:b": 2})
        assert [told(value) for value in values.values()] == [UNASKED] * 2
        assert Counter.objects.values_of(list(values)) == {"views:a": 1, "views:b": 2}

    def test_async_code(self) -> None:
        assert told(async_to_sync(Counter.objects.aincrement)("views:a", 3)) == UNASKED
        assert Counter.objects.read("views:a", consistency="cached").value == 3

    def test_a_transaction_counts_when_it_commits(self) -> None:
        with transaction.atomic():
            assert told(Counter.objects.increment("views:a"))[2] == Unknown.COMMIT
        assert Counter.objects.value("views:a") == 1

    def test_what_needs_the_value_asks_for_it_or_is_refused(self) -> None:
        Counter.objects.increment("views:a", 3)
        assert Counter.objects.maximum("views:a", 8) == 8
        with pytest.raises(UnsupportedBounds):
            Counter.objects.decrement("views:a", floor=0)
        assert Counter.objects.value("views:a") == 8

    def test_who_listens_hears_the_same(self) -> None:
        heard: list[Any] = []

        def hear(values: Any, **_: Any) -> None:
            heard.append(values)

        batch_applied.connect(hear, sender=Batch)
        try:
            Counter.objects.increment("views:a")
        finally:
            batch_applied.disconnect(hear, sender=Batch)
        ((key, value),) = heard[0].items()
        assert (key, told(value)) == ("views:a", UNASKED)

    def test_too_large_a_sum_is_refused_and_changes_nothing(self) -> None:
        for _ in range(2):
            Counter.objects.increment("views:a", 2**61)
        for by in (1, 2**53 - 1, 2**61):
            before = Counter.objects.value("views:a")
            if before + by > 2**62:
                with pytest.raises(CounterOverflow):
                    Counter.objects.increment("views:a", by + 4096)
                assert Counter.objects.value("views:a") == before
        Counter.objects.decrement("views:a", 2**61)
        assert Counter.objects.value("views:a") == 2**61

    def test_a_field(self, monkeypatch: pytest.MonkeyPatch) -> None:
        field: Any = Article._meta.get_field("reads")
        monkeypatch.setitem(vars(field), "recipe", field.recipe.but(returns="nothing"))
        article = Article.objects.create()
        result: Any = article.reads.increment(3)
        assert told(result) == UNASKED
        # The instance has what it was loaded with, also where the result is assigned.
        article.reads = result
        assert (article.reads, article.reads.value()) == (0, 3)
        flush()
        assert column(article, "reads") == 3


class TestQueries:
    def test_a_cold_key_asks_the_database_for_nothing(self, django_assert_num_queries: Any) -> None:
        flush()
        page = {f"views:cold{number}": 1 for number in range(500)}
        with django_assert_num_queries(0):
            for number in range(50):
                Counter.objects.increment(f"views:{number}")
            Counter.objects.increment_many(page)
            Counter.objects.increment("views:token", token=mint(clock.utc()))
            async_to_sync(Counter.objects.aincrement)("views:async")
        assert set(Counter.objects.values_of(list(page)).values()) == {1}
        flush()
        assert Counter.objects.values_of(["views:49", "views:token", "views:async"]) == {
            "views:49": 1,
            "views:token": 1,
            "views:async": 1,
        }
        # That of a token lands as an entry, where there is a ledger.
        assert sum(stored().values()) == 551 + ("ledger" in dialect_of("default").lacks)

    def test_it_counts_while_the_database_is_away(self) -> None:
        with database_away():
            assert told(Counter.objects.increment("views:a")) == UNASKED
        assert Counter.objects.value("views:a") == 1

    def test_one_round_trip_and_the_first_of_a_slot_two(self, nothing: str) -> None:
        with watched(nothing) as first:
            Counter.objects.increment("views:a")
        with watched(nothing) as later:
            Counter.objects.increment("views:a")
            Counter.objects.increment_many({"views:a": 1, "views:b": 1})
            Counter.objects.increment("views:a", 2**60)
        assert (first, later) == (["add_only", "add"], ["add_only", "add", "add"])

    def test_no_total_is_kept_of_many_cold_keys(self, nothing: str, server: Any) -> None:
        """100,000 keys: what is too many for a generation is sealed, and nothing else is kept."""
        with override_counters(views={**VIEWS, "OPTIONS": {**NOTHING, "timeout": 60}}):
            for start in range(0, 100_000, 1000):
                page = (f"views:{number}" for number in range(start, start + 1000))
                Counter.objects.increment_many(dict.fromkeys(page, 1))
        every = [slots_of("default", nothing).keys(slot) for slot in range(SLOTS)]
        lengths = [server.hlen(key) for keys in every for key in (keys[0], *keys[2:])]
        # A page is added as a whole, before anybody looks how much there is.
        assert max(lengths) < EARLY + 1000
        assert sum(lengths) - 4 * sum(map(bool, lengths)) == 100_000
        assert not any(server.exists(keys[1]) for keys in every)

    def test_one_by_one_a_generation_is_sealed_when_it_is_large(
        self, nothing: str, server: Any
    ) -> None:
        keys = slots_of("default", nothing).keys(5)
        names = of_slot(5, EARLY + 20)
        Counter.objects.increment_many(dict.fromkeys(names[: EARLY - 10], 1))
        for name in names[EARLY - 10 :]:
            Counter.objects.increment(name)
        assert [server.hlen(key) > EARLY for key in (keys[0], keys[2])] == [False, True]
        flush()
        flush()
        assert stored() == dict.fromkeys(names, 1)


@pytest.mark.parametrize("step", STEPS)
def test_a_flush_that_dies_is_finished_by_the_next(step: str) -> None:
    for round_ in range(1, 4):
        for key in KEYS:
            Counter.objects.increment(key)
        with pytest.raises(Killed):
            flush(step=kill_at(step), largest=10)
        for key in KEYS:
            Counter.objects.increment(key, 10)
        assert set(Counter.objects.values_of(KEYS).values()) == {11 * round_}
        found = Counter.objects.values_of(KEYS, consistency="cached", max_age=600)
        assert set(found.values()) == {11 * round_}
        flush()
        flush()
        assert stored() == dict.fromkeys(KEYS, 11 * round_)
    assert not CounterIncident.objects.exists()


class TestTokens:
    def test_a_token_counts_once_through_flushes_and_forgetting(
        self, nothing: str, server: Any
    ) -> None:
        token = mint(clock.utc())
        assert told(Counter.objects.increment("views:a", 2, token=token)) == UNASKED
        # What Redis remembers beside the generations may be evicted.
        for evicted in (False, True):
            if evicted:
                server.delete(f"{slots_of('default', nothing).keys(0)[0][:-2]}:t:{token.hex}")
            again: Any = Counter.objects.increment("views:a", 2, token=token)
            assert told(again) == (Unknown, None, Unknown.UNASKED, True)
        for _ in range(2):
            flush()
            # Redis has forgotten it; the database has not.
            Counter.objects.increment("views:a", 2, token=token)
            with pytest.raises(TokenConflict):
                Counter.objects.increment("views:a", 3, token=token)
        flush()
        assert Counter.objects.value("views:a") == 2

    @pytest.mark.usefixtures("cached")
    def test_a_replay_says_what_is_declared_now(self) -> None:
        first, second = mint(clock.utc()), mint(clock.utc())
        Counter.objects.increment("views:a", 2, token=first)
        with override_counters(views={"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}):
            again = Counter.objects.increment("views:a", 2, token=first)
            assert (again.value, again.replayed) == (2, True)
            assert Counter.objects.increment("views:a", 5, token=second) == 7
        assert Counter.objects.increment("views:a", 5, token=second).replayed
        assert Counter.objects.value("views:a") == 7


def test_without_redis_it_goes_where_increments_go() -> None:
    for detour in ("ledger", "exact"):
        with override_counters(
            views={**DEAD, **VIEWS, "CACHE": DEAD["CACHE"], "ON_REDIS_DOWN": detour}
        ):
            result: Any = Counter.objects.increment(f"views:{detour}")
            assert result.reason == Unknown.SPILLED
    assert Counter.objects.value("views:ledger") == Counter.objects.value("views:exact") == 1


def test_cells_land_with_their_totals() -> None:
    tagged = {**VIEWS, "PER": ["hour", "day"], "TAGS": {"country": 10}}
    with override_counters(views=tagged):
        for country in ("DE", "FR", "DE"):
            result: Any = Counter.objects.increment("views:a", tags={"country": country})
            assert told(result) == UNASKED
        Counter.objects.increment_many({"views:a": 1, "views:b": 1}, tags={"country": "FR"})
        flush()
        for period in ("hour", "day"):
            counts = series.of("views:a").per(period).last(2)
            assert counts.by("country").total() == {"DE": 2, "FR": 2}
    assert stored() == {"views:a": 4, "views:b": 1}


class TestLoss:
    def test_what_redis_loses_is_found(self, nothing: str, server: Any) -> None:
        for key in KEYS:
            Counter.objects.increment(key)
        flush()
        for key in KEYS:
            Counter.objects.increment(key, 10)
        server.delete(slots_of("default", nothing).keys(5)[0])
        for key in KEYS:
            Counter.objects.increment(key, 100)
        assert flush().incidents
        found = CounterIncident.objects.get(kind=CounterIncident.Kind.LOST)
        assert found.subject == "default [5]"
        flush()
        expected = {key: 101 if slot_of(key) == 5 else 111 for key in KEYS}
        assert stored() == expected

    def test_increments_of_another_database_are_not_landed(self, nothing: str, server: Any) -> None:
        Counter.objects.increment("views:a")
        flush()
        Counter.objects.increment("views:a")
        server.set(slots_of("default", nothing).owner, "12 another")
        (reason,) = flush().away.values()
        assert "--adopt" in reason
        assert stored() == {"views:a": 1}

    @needs_redis
    def test_a_server_that_comes_back_older_counts_nothing_twice(self, tmp_path: Path) -> None:
        """What it had when it was saved has landed since, and it is killed."""
        path = f"unix://{tmp_path}/socket"
        options = ("--save", "", "--unixsocket", path.removeprefix("unix://"))
        started = running(tmp_path / "servers", options)
        with started as (server,), override_counters(views={**VIEWS, "CACHE": path}):
            Counter.objects.increment("views:a")
            Counter.objects.increment("views:a")
            server("SAVE")
            flush()
            Counter.objects.increment("views:a", 10)
            flush()
            assert stored() == {"views:a": 12}
            server.restart(*options)
            waiting = pending_in(path, 10, "default").waiting()
            assert waiting[slot_of("views:a")].open == 1
            # What was open then is of another history: nothing is added to it.
            Counter.objects.increment("views:a", 100)
            Counter.objects.increment("views:a", 100)
            for _ in range(3):
                flush()
            assert stored() == {"views:a": 212}

    @needs_redis
    def test_a_failover_counts_nothing_twice(self, tmp_path: Path) -> None:
        with running(tmp_path, ("--save", "")) as (server,):
            place = {**VIEWS, "CACHE": f"redis://127.0.0.1:{server.port}/0"}
            with override_counters(views=place):
                for turn in range(1, 4):
                    Counter.objects.increment("views:a")
                    _change(server)
                    Counter.objects.increment("views:a")
                    assert Counter.objects.value("views:a") == 2 * turn
                    flush()
                    flush()
                    assert stored() == {"views:a": 2 * turn}


def _change(server: Server) -> None:
    """What was a replica for a moment has a new history."""
    server("REPLICAOF", "127.0.0.1", 1)
    server("REPLICAOF", "NO", "ONE")
