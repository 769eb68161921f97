"""A server that answers an error has counted nothing, unless its script had begun."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync

from django_counters.cached.requests import Requests
from django_counters.cached.sources import pending_in
from django_counters.cached.state import weaknesses
from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.models import Counter, CounterDelta
from django_counters.redis.addresses import TIMEOUT, address_of
from django_counters.redis.client import client_of
from django_counters.redis.commands import Lost, refusal
from django_counters.redis.keys import SlotKeys
from django_counters.redis.routes import Breaker, Route
from django_counters.testing import override_counters
from django_counters.types import Unknown
from tests.redis.servers import needs_redis, running
from tests.redis.test_cluster import clustered

IN_SCRIPT = f"script: {'a' * 40}, on @user_script:9."
KEYS = {f"views:{number}": 1 for number in range(20)}


def views(url: str, **options: Any) -> Any:
    return override_counters(views={"STRATEGY": "cached", "CACHE": url, **options})


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ("CROSSSLOT Keys in request don't hash to the same slot", CounterUnavailable),
        ("ERR unknown command 'EVAL', with args beginning with: '-- script'", CounterUnavailable),
        ("ERR max number of clients reached", CounterUnavailable),
        ("NOVELTY of a server to come", OutcomeUnknown),
        (f"OOM command not allowed. {IN_SCRIPT}", CounterUnavailable),
        (f"ERR user_script:9: oops {IN_SCRIPT}", OutcomeUnknown),
        (f"NOPERM of the second command {IN_SCRIPT}", OutcomeUnknown),
        ("ERR Error running script (call to f_aaa): @user_script:9: oops", OutcomeUnknown),
    ],
)
def test_an_error_is_a_refusal_unless_the_script_had_begun(
    reply: str, error: type[Exception]
) -> None:
    requests = Requests("redis:a", SlotKeys("default", "a"), together=True)
    assert type(requests.meaning(refusal(reply))) is error


@needs_redis
@pytest.mark.django_db(transaction=True)
def test_a_cluster_behind_a_plain_address(tmp_path: Path) -> None:
    with clustered(tmp_path) as servers:
        url = f"redis://127.0.0.1:{servers[0].port}/0"
        with views(url, ON_REDIS_DOWN="raise"):
            with pytest.raises(CounterUnavailable, match="CROSSSLOT"):
                Counter.objects.increment_many(KEYS)
            codes = [code for code, _ in weaknesses(pending_in(url, 1.0, "default"))]
            assert "W023" in codes
        with views(url):
            Counter.objects.increment_many(KEYS)
        assert set(CounterDelta.objects.values_list("key", flat=True)) == set(KEYS)


@needs_redis
@pytest.mark.django_db(transaction=True)
def test_a_server_without_scripts(tmp_path: Path) -> None:
    with running(tmp_path, ("--rename-command", "EVAL", "")) as (server,):
        url = f"redis://127.0.0.1:{server.port}/0"
        with views(url):
            told = Counter.objects.increment("views:a", 3)
            assert isinstance(told, Unknown)
            assert told.reason == Unknown.SPILLED
        ((code, message), *_) = weaknesses(pending_in(url, 1.0, "default"))
        assert (code, "EVAL" in message) == ("W014", True)
        assert CounterDelta.objects.get().delta == 3


@pytest.mark.django_db(transaction=True)
def test_eventlet_which_removes_poll(cached: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "poll")
    with override_counters(views={"STRATEGY": "cached", "ON_REDIS_DOWN": "raise"}):
        client_of(address_of("default", {"timeout": TIMEOUT})).close()
        assert [Counter.objects.increment("views:a") for _ in range(3)] == [1, 2, 3]

        async def count() -> list[object]:
            return [await Counter.objects.aincrement("views:a") for _ in range(2)]

        assert async_to_sync(count)() == [4, 5]
        # Connections that the server has closed are noticed.
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as server:
            server.client_kill_filter(_type="normal", skipme=True)
        assert Counter.objects.increment("views:a") == 6


def test_the_log_says_when_a_server_is_left_alone_and_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = address_of("redis://user:secret@127.0.0.1:1/0")
    (node,) = address.nodes
    route = Route(address)
    route._breakers[node] = Breaker(pause=0)
    for _ in range(8):
        route.broken(node, route.admit(node), Lost("refused", sent=False))
    for _ in range(2):
        route.answered(node, route.admit(node), ["OK"])
    assert [one.getMessage() for one in caplog.records if one.name == "django_counters"] == [
        "Redis 127.0.0.1:1/0 (127.0.0.1:1) is unavailable: 3 failures in a row. "
        "Calls fail at once until it answers.",
        "Redis 127.0.0.1:1/0 (127.0.0.1:1) answers again.",
    ]
