"""Adjustments of cached counters: what waits in Redis, and what it must forget."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connection, connections, transaction

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.errors import CounterUnavailable
from django_counters.models import Counter, CounterAdjustment, CounterIncident
from django_counters.redis.keys import slot_of
from django_counters.signals import counter_adjusted
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.adjustments.adjustables import WHO, assert_sound, everything
from tests.cached.test_flush import STEPS, Killed, kill_at
from tests.redis.servers import needs_redis, running
from tests.testapp.models import Article, Beacon

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
DEAD: dict[str, Any] = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}
YEAR = 365 * 86_400.0
Elsewhere = Callable[[Callable[[], Any]], Any]


def adjust(**asked: Any) -> tuple[int, int]:
    row = Counter.objects.adjust("views:a", **(WHO | asked))
    return row.before, row.after


def value() -> int:
    return Counter.objects.value("views:a")


def cached_value(max_age: float = YEAR) -> int:
    found = Counter.objects.values_of(["views:a"], consistency="cached", max_age=max_age)
    return found["views:a"]


def known(prefix: str, counter: str = "views:a") -> str | None:
    """What Redis knows of a total."""
    base = slots_of("default", prefix).keys(slot_of(counter))[1]
    with redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        found: Any = client.hget(base, counter)
    return None if found is None else str(found)


class TestFlush:
    @pytest.mark.parametrize("at", STEPS)
    def test_one_in_the_middle_of_a_flush(self, at: str) -> None:
        """Nothing that waits is lost or counted twice, whichever part of the flush is done."""
        Counter.objects.increment("views:a", 5)
        flush()
        Counter.objects.increment("views:a", 7)
        assert cached_value() == 12
        adjusted: list[tuple[int, int]] = []

        def meet(step: str) -> None:
            if step == at and not adjusted:
                adjusted.append(adjust(to=100))
                Counter.objects.increment("views:a", 1)
                assert (value(), cached_value()) == (101, 101)
            found = Counter.objects.explain("views:a")
            parts = found.total + found.shards + found.tail + (found.redis or 0)
            assert found.value == parts == (101 if adjusted else 12)

        flush(step=meet)
        assert adjusted == [(12, 100)]
        assert (value(), cached_value()) == (101, 101)
        flush()
        assert (value(), cached_value()) == (101, 101)
        assert Counter.objects.get(key="views:a").value == 101
        assert not CounterIncident.objects.exists()
        assert_sound()

    @pytest.mark.parametrize("at", STEPS)
    def test_a_flush_that_died(self, at: str) -> None:
        Counter.objects.increment("views:a", 5)
        with pytest.raises(Killed):
            flush(step=kill_at(at))
        assert adjust(to=50) == (5, 50)
        assert (value(), cached_value()) == (50, 50)
        flush()
        assert (value(), cached_value()) == (50, 50)
        assert Counter.objects.get(key="views:a").value == 50

    def test_increments_with_tokens(self) -> None:
        """They reach the total by way of the ledger."""
        for _ in range(2):
            Counter.objects.increment("views:a", 5, token=mint(clock.utc()))
        assert adjust(by=-3) == (10, 7)
        flush()
        assert adjust(by=-3) == (7, 4)
        assert (value(), cached_value()) == (4, 4)
        assert_sound()

    @pytest.mark.many_writers
    def test_an_explanation_that_a_landing_overtakes(self, elsewhere: Elsewhere) -> None:
        """Redis is asked, then the database: what lands in between is in one of both."""
        Counter.objects.increment("views:a", 7)
        flushed: list[Any] = []

        def overtake(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            # The first statement says what has landed, the second one has the total.
            if len(flushed) < 2:
                flushed.append(None)
                if len(flushed) == 2:
                    elsewhere(flush)
            return execute(sql, *rest)

        with connection.execute_wrapper(overtake):
            found = Counter.objects.explain("views:a")
        assert len(flushed) == 2
        assert (found.value, found.total, found.redis) == (7, 7, 0)


class TestForgetting:
    def test_a_cached_read_is_right_at_once(self, cached: str) -> None:
        Counter.objects.increment("views:a", 5)
        assert cached_value() == 5
        assert known(cached) == "0"
        adjust(to=100)
        assert known(cached) is None
        assert cached_value() == 100
        assert Counter.objects.increment("views:a") == 101

    @pytest.mark.usefixtures("cached")
    def test_of_a_field(self) -> None:
        beacon = Beacon.objects.create()
        beacon.pings.increment(5)
        assert beacon.pings.read(consistency="cached", max_age=YEAR).value == 5
        beacon.pings.adjust(to=100, **WHO)
        assert beacon.pings == 100
        assert beacon.pings.read(consistency="cached", max_age=YEAR).value == 100

    def test_what_is_rolled_back_is_not_forgotten(self, cached: str) -> None:
        assert cached_value() == 0
        with transaction.atomic():
            adjust(to=100)
            assert known(cached) == "0"
            transaction.set_rollback(True)
        assert known(cached) == "0"
        assert (value(), cached_value()) == (0, 0)

    def test_an_old_total_is_not_old_for_ever(self) -> None:
        assert cached_value() == 0
        with override_counters(views={}):
            adjust(to=100)
        began = clock.now()
        while cached_value(max_age=0.05) == 0:
            assert (clock.now() - began).total_seconds() < 20
        assert cached_value() == 100

    @pytest.mark.many_writers
    def test_a_reader_that_has_seen_the_old_total_does_not_fill_it_in(self, cached: str) -> None:
        """It asked Redis and the database before, and tells Redis after."""
        with override_counters(views={}):
            # Redis does not know of it, so a reader has to ask the database.
            Counter.objects.increment("views:a", 5)
        seen, go = threading.Event(), threading.Event()

        def wait(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            found = execute(sql, *rest)
            seen.set()
            assert go.wait(30)
            return found

        def read() -> int:
            try:
                # Some databases are told something when somebody connects.
                connection.ensure_connection()
                with connection.execute_wrapper(wait):
                    return cached_value()
            finally:
                connections.close_all()

        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read)
            assert seen.wait(30)
            adjust(to=100)
            go.set()
            assert reading.result(30) == 5
        assert known(cached) is None
        assert (cached_value(), value()) == (100, 100)

    @pytest.mark.many_writers
    def test_a_reader_in_between_does_not_fill_in_what_is_not_committed(
        self, elsewhere: Elsewhere
    ) -> None:
        with transaction.atomic():
            adjust(to=100)
            assert elsewhere(cached_value) == 0
            # One who sees the adjustment alone.
            assert cached_value(max_age=0) == 100
        assert (cached_value(), elsewhere(cached_value)) == (100, 100)


class TestAway:
    def test_without_redis_nothing_is_adjusted(self) -> None:
        Counter.objects.increment("views:a", 5)
        before = everything()
        with override_counters(views=DEAD), pytest.raises(CounterUnavailable):
            adjust(to=1)
        assert everything() == before
        assert value() == 5

    @pytest.mark.usefixtures("cached")
    def test_a_field_without_redis(self, monkeypatch: pytest.MonkeyPatch) -> None:
        article = Article.objects.create()
        article.reads.increment(5)
        field: Any = Article._meta.get_field("reads")
        recipe = field.recipe.but(cache=DEAD["CACHE"])
        with monkeypatch.context() as patch:
            patch.setitem(vars(field), "recipe", recipe)
            with pytest.raises(CounterUnavailable):
                article.reads.adjust(to=1, **WHO)
        assert not CounterAdjustment.objects.exists()
        assert (article.reads, article.reads.read().value) == (5, 5)

    def test_a_detour_is_part_of_the_value(self) -> None:
        Counter.objects.increment("views:a", 5)
        for detour in ("ledger", "exact"):
            with override_counters(views={**DEAD, "ON_REDIS_DOWN": detour}):
                Counter.objects.increment("views:a", 10)
        assert adjust(to=100) == (25, 100)
        flush()
        assert value() == 100
        assert_sound()

    @needs_redis
    def test_redis_goes_away_before_the_commit(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The adjustment is committed, whoever asked for it is told so, and so are receivers."""
        heard: list[int] = []

        def hear(adjustment: CounterAdjustment, **_: Any) -> None:
            heard.append(adjustment.number)

        with running(tmp_path, ("--save", "")) as (server,):
            url = f"redis://127.0.0.1:{server.port}/0"
            views = {"STRATEGY": "cached", "CACHE": url, "OPTIONS": {"timeout": 10}}
            with override_counters(views=views):
                assert cached_value() == 0
                counter_adjusted.connect(hear)
                try:
                    with transaction.atomic():
                        adjust(to=100)
                        server("ACL", "SETUSER", "default", "-@scripting")
                finally:
                    counter_adjusted.disconnect(hear)
                server("ACL", "SETUSER", "default", "+@all")
                assert heard == [1]
                assert (value(), cached_value()) == (100, 0)
        assert "on_commit" in caplog.text
        assert CounterAdjustment.objects.get().after == 100
