"""Cached counters and fields while Redis, or the database, cannot be reached."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from django_counters import Unknown, clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.errors import (
    CounterUnavailable,
    OutcomeUnknown,
    RecordMissing,
    UnsupportedConsistency,
)
from django_counters.models import Counter, CounterDelta, CounterIncident
from django_counters.redis.keys import slot_of
from django_counters.strategies.base import AT_ONCE
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.cached.test_fields import FIELDS, column
from tests.redis.counting import eventually
from tests.redis.proxy import Proxy, proxied
from tests.redis.servers import Server, needs_redis, running
from tests.settling import roll_up
from tests.testapp.models import Article, Ticket

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
DEAD: dict[str, Any] = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}


def own_place(proxy: Proxy) -> str:
    """A database of Redis that no other worker of this run uses: an address has no prefix."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return f"{proxy.url[:-1]}{15 - worker % 6}"


def value(key: str = "views:a") -> int:
    return Counter.objects.value(key)


@pytest.mark.parametrize("detour", ["ledger", "exact"])
def test_it_is_counted_in_the_database_once(detour: str) -> None:
    Counter.objects.increment("views:a", 10)
    with override_counters(views={**DEAD, "ON_REDIS_DOWN": detour}):
        for _ in range(5):
            told: Any = Counter.objects.increment("views:a")
            assert (told.value, told.key, told.reason) == (None, "views:a", Unknown.SPILLED)
        Counter.objects.decrement("views:a", 20)
        many: Any = Counter.objects.increment_many({"views:a": 100, "views:b": 7})
        assert {type(each) for each in many.values()} == {Unknown}
        with transaction.atomic():
            Counter.objects.increment("views:a", 1000)
        with pytest.raises(KeyError), transaction.atomic():
            Counter.objects.increment("views:a", 10_000)
            raise KeyError
    # Nothing has to be repaired.
    assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 1095, "views:b": 7}
    Counter.objects.increment("views:a")
    flush()
    roll_up()
    assert Counter.objects.get(key="views:a").value == value() == 1096
    assert not CounterIncident.objects.exists()


def test_it_can_be_an_error() -> None:
    with override_counters(views={**DEAD, "ON_REDIS_DOWN": "raise"}):
        # Also when the server is left alone, after some failures.
        for _ in range(10):
            with pytest.raises(CounterUnavailable) as caught:
                Counter.objects.increment("views:a")
            assert "127.0.0.1:1" in str(caught.value)
        with pytest.raises(CounterUnavailable):
            Counter.objects.increment_many({"views:a": 1})
    assert value() == 0
    assert not CounterDelta._base_manager.exists()


@pytest.mark.parametrize("detour", ["ledger", "raise", "exact"])
def test_an_answer_that_is_lost_is_counted_nowhere_else(detour: str) -> None:
    with proxied() as proxy:
        views = {"STRATEGY": "cached", "CACHE": own_place(proxy), "ON_REDIS_DOWN": detour}
        with override_counters(views={**views, "OPTIONS": {"timeout": 1}}):
            Counter.objects.increment("views:a")
            with transaction.atomic():
                # A server that lacks the script of a commit executes nothing of the lost request.
                Counter.objects.increment("views:b")
            proxy.lose("swallow")
            with pytest.raises(OutcomeUnknown):
                Counter.objects.increment("views:a", 10)
            # It may still be sent and not acknowledged: the caller gave up after a second.
            assert eventually(lambda: value() == 11)
            proxy.lose("unsent")
            with pytest.raises(OutcomeUnknown):
                Counter.objects.increment_many({"views:a": 100})
            assert value() == 11
            proxy.lose("swallow")
            with transaction.atomic():
                Counter.objects.increment("views:a", 1000)
            (incident,) = CounterIncident.objects.all()
            assert incident.kind == CounterIncident.Kind.UNKNOWN
            assert incident.detail["amounts"] == {"views:a": 1000}
            assert eventually(lambda: value() == 1011)
            flush()
            assert (value(), Counter.objects.get(key="views:a").value) == (1011, 1011)
            assert not CounterDelta._base_manager.exists()


@pytest.mark.parametrize("detour", ["ledger", "raise", "exact"])
def test_an_error_of_a_proxy_that_passed_it_on_is_counted_once(detour: str) -> None:
    with proxied() as proxy:
        views = {"STRATEGY": "cached", "CACHE": own_place(proxy), "ON_REDIS_DOWN": detour}
        with override_counters(views=views):
            Counter.objects.increment("views:a")
            for by in (10, 100):
                proxy.lose("error")
                with pytest.raises(OutcomeUnknown):
                    if by == 10:
                        Counter.objects.increment("views:a", by)
                    else:
                        Counter.objects.increment_many({"views:a": by, "views:b": by})
            proxy.lose("error")
            with pytest.raises(CounterUnavailable):
                value()
            flush()
            assert value() == Counter.objects.get(key="views:a").value == 111
            assert not CounterDelta._base_manager.exists()


def test_many_of_a_transaction_are_sent_in_pages_and_a_lost_one_is_told_alone() -> None:
    keys = [f"views:{number:04}" for number in range(2 * AT_ONCE + 1)]
    pages = keys[:AT_ONCE], keys[AT_ONCE : 2 * AT_ONCE], keys[2 * AT_ONCE :]
    with proxied() as proxy:
        views = {"STRATEGY": "cached", "CACHE": own_place(proxy), "ON_REDIS_DOWN": "raise"}
        with override_counters(views={**views, "OPTIONS": {"timeout": 2}}):
            proxy.lose("unsent", marker=pages[1][0].encode())
            with transaction.atomic():
                Counter.objects.increment_many(dict.fromkeys(keys, 1))
            (incident,) = CounterIncident.objects.all()
            assert incident.detail["amounts"] == dict.fromkeys(pages[1], 1)
            found = Counter.objects.values_of(keys)
            assert [key for key in keys if found[key] == 1] == [*pages[0], *pages[2]]


def test_a_read_whose_answer_is_lost_is_a_read_without_redis() -> None:
    with proxied() as proxy:
        views = {"STRATEGY": "cached", "CACHE": own_place(proxy), "OPTIONS": {"timeout": 1}}
        with override_counters(views=views):
            Counter.objects.increment("views:a", 5)
            flush()
            proxy.lose("swallow")
            with pytest.raises(CounterUnavailable):
                value()
            proxy.lose("swallow")
            assert Counter.objects.read("views:a", consistency="cached").consistency == "landed"
            proxy.lose("swallow")
            found = Counter.objects.values_of(["views:a"], consistency="cached")
            assert found == {"views:a": 5}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A Redis of our own, that the namespace is cached in."""
    with running(tmp_path, ("--save", "", "--enable-protected-configs", "yes")) as (server,):
        url = f"redis://127.0.0.1:{server.port}/0"
        views = {"STRATEGY": "cached", "CACHE": url, "OPTIONS": {"timeout": 10}}
        with override_counters(views=views):
            assert Counter.objects.increment("views:a") == 1
            yield server


REFUSALS: dict[str, list[tuple[Any, ...]]] = {
    "full": [("CONFIG", "SET", "maxmemory", 1)],
    "a replica": [("REPLICAOF", "127.0.0.1", 1)],
    "forbidden": [("ACL", "SETUSER", "default", "-@scripting")],
    "unsaved": [("CONFIG", "SET", "save", "1 1"), ("CONFIG", "SET", "dir", "/proc"), ("BGSAVE",)],
}


@needs_redis
@pytest.mark.parametrize("why", REFUSALS)
def test_what_a_server_refuses_is_counted_elsewhere(own: Server, why: str) -> None:
    for command in REFUSALS[why]:
        own(*command)
    if why == "unsaved":
        assert eventually(lambda: own("INFO", "persistence")["rdb_last_bgsave_status"] == "err")
    told: Any = Counter.objects.increment("views:a", 5)
    assert "Redis is away" in told.reason
    token = mint(clock.utc())
    replays: list[Any] = [Counter.objects.increment("views:a", 10, token=token) for _ in range(2)]
    assert [each.replayed for each in replays] == [False, True]
    entries = CounterDelta._base_manager.values_list("delta", flat=True)
    assert sorted(entries) == [5, 10]
    own("ACL", "SETUSER", "default", "+@all")
    own("REPLICAOF", "NO", "ONE")
    own("CONFIG", "SET", "maxmemory", 0)
    own("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
    assert value() == 16
    report = flush()
    assert (report.away, report.quarantined, value()) == ({}, {}, 16)


@needs_redis
def test_a_full_server_answers_with_what_it_knows(own: Server) -> None:
    base = slots_of("default", "").keys(slot_of("views:a"))[1]
    own("HSET", base, "\0mviews:a", (int(time.time()) - 3500) * 1000)
    own("CONFIG", "SET", "maxmemory", 1)
    reading = Counter.objects.read("views:a", consistency="cached", max_age=3600)
    assert (reading.value, reading.consistency) == (1, "cached")


@contextmanager
def database_away() -> Iterator[None]:
    """Connections of this thread are refused."""
    before = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update(HOST="127.0.0.1", PORT="1")
    try:
        yield
    finally:
        connection.settings_dict.update(before)
        connection.close()


@pytest.mark.many_writers
class TestWithoutTheDatabase:
    def test_redis_goes_on_counting(self) -> None:
        flush()
        Counter.objects.values_of(["views:a"], consistency="cached")
        with database_away():
            assert Counter.objects.increment("views:a") == 1
            assert Counter.objects.increment("views:a", 2) == 3
            found = Counter.objects.values_of(["views:a"], consistency="cached", max_age=600)
            assert found == {"views:a": 3}
        assert value() == 3

    def test_a_total_that_is_not_known_leaves_the_value_unknown(self) -> None:
        with database_away():
            told: Any = Counter.objects.increment("views:a", 5)
            assert (told.value, told.reason) == (None, Unknown.DATABASE)
            token = mint(clock.utc())
            first: Any = Counter.objects.increment("views:a", token=token)
            again: Any = Counter.objects.increment("views:a", token=token)
            assert (first.replayed, again.replayed) == (False, True)
            many: Any = Counter.objects.increment_many({"views:a": 10, "views:b": 1})
            assert {type(each) for each in many.values()} == {Unknown}
        assert value() == 16
        flush()
        assert (value(), value("views:b")) == (16, 1)

    def test_what_needs_it_says_so(self) -> None:
        Counter.objects.increment("views:a", 5)
        with database_away():
            for call in (value, lambda: Counter.objects.read("views:a"), flush):
                with pytest.raises(CounterUnavailable) as caught:
                    call()
                assert caught.value.using == "default"
        flush()
        assert value() == 5

    def test_without_both_nothing_is_counted(self) -> None:
        with override_counters(views=DEAD), database_away():
            with pytest.raises(CounterUnavailable):
                Counter.objects.increment("views:a")
            with pytest.raises(CounterUnavailable):
                Counter.objects.read("views:a", consistency="cached")
        assert value() == 0


@pytest.fixture
def away(cached: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A function that takes Redis away from the fields."""
    with monkeypatch.context() as patch:
        for field in FIELDS:
            patch.setitem(vars(field), "recipe", field.recipe.but(cache=DEAD["CACHE"]))
        yield patch


@pytest.mark.usefixtures("cached")
class TestFieldsWithoutRedis:
    @pytest.mark.usefixtures("away")
    def test_it_is_counted_in_the_column(self) -> None:
        article = Article.objects.create()
        told: Any = article.reads.increment(3)
        assert "Redis is away" in told.reason
        assert (article.reads, column(article, "reads")) == (0, 3)
        with transaction.atomic():
            article.reads.increment(4)
        assert column(article, "reads") == 7
        with pytest.raises(CounterUnavailable):
            article.reads.read()
        assert article.reads.read(consistency="cached").consistency == "landed"
        with pytest.raises(CounterUnavailable):
            article.reads.value()
        assert Article.reads.of(article.pk).value(consistency="cached") == 7
        # Of a field that is not cached it is the exact value.
        assert article.shares.value(consistency="cached") == 0
        with pytest.raises(UnsupportedConsistency):
            article.shares.value(consistency="guessed")
        assert Article.objects.with_counts(consistency="cached").get().reads == 7
        with pytest.raises(CounterUnavailable):
            Article.objects.with_counts().get()

    def test_when_it_is_back_all_is_there(self, away: pytest.MonkeyPatch) -> None:
        article = Article.objects.create()
        article.reads.increment(3)
        away.undo()
        assert article.reads.increment(4) == 7
        flush()
        assert article.reads.read().value == column(article, "reads") == 7

    @pytest.mark.usefixtures("away")
    def test_a_record_that_is_gone(self) -> None:
        article = Article.objects.create()
        Article.objects.all().delete()
        with pytest.raises(RecordMissing):
            article.reads.increment()

    @pytest.mark.usefixtures("away")
    def test_a_field_can_say_that_it_is_not_counted_then(self) -> None:
        ticket = Ticket.objects.create()
        with pytest.raises(CounterUnavailable):
            ticket.scans.increment()
        with transaction.atomic():
            ticket.scans.increment()
        assert column(ticket, "scans") == 0
        (incident,) = CounterIncident.objects.all()
        assert list(incident.detail["amounts"].values()) == [1]

    def test_a_time_that_is_up_is_unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ticket = Ticket.objects.create()
        ticket.scans.increment()
        field: Any = Ticket._meta.get_field("scans")
        with proxied() as proxy:
            recipe = field.recipe.but(cache=proxy.url, timeout=2)
            monkeypatch.setitem(vars(field), "recipe", recipe)
            proxy.lose("swallow")
            with pytest.raises(OutcomeUnknown):
                ticket.scans.increment()
