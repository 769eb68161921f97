"""Buckets in Redis where something fails: whoever asks learns that nothing is admitted."""

from __future__ import annotations

import os
import secrets

import pytest

from django_counters.contrib.limits.algorithms import Draw
from django_counters.contrib.limits.redis import RedisLimits
from django_counters.errors import CounterUnavailable
from django_counters.redis.addresses import address_of
from tests.redis.proxy import Fault, Proxy

DAY = 86_400_000_000


@pytest.fixture
def digest() -> bytes:
    return secrets.token_bytes(32)


def limits(url: str, timeout: float = 10) -> RedisLimits:
    return RedisLimits(address_of(url, {"timeout": timeout}))


def test_nobody_answers(digest: bytes) -> None:
    with pytest.raises(CounterUnavailable) as caught:
        limits("redis://127.0.0.1:1/0").take(Draw(digest, 1, 10))
    assert caught.value.using == "redis:127.0.0.1:1/0"


@pytest.mark.parametrize("fault", ["close", "reset", "half", "swallow"])
def test_a_lost_answer_may_have_taken(proxy: Proxy, digest: bytes, fault: Fault) -> None:
    """And is not asked for again."""
    store = limits(proxy.url, 0.5 if fault == "swallow" else 10)
    store.take(Draw(digest, DAY, 10 * DAY))
    proxy.lose(fault)
    with pytest.raises(CounterUnavailable, match="the answer was lost"):
        store.take(Draw(digest, DAY, 10 * DAY))
    found = limits(os.environ["REDIS_URL"]).take(Draw(digest, DAY, 10 * DAY))
    assert found.admitted
    assert round(found.used / DAY) == 3


def test_a_lost_request_takes_nothing(proxy: Proxy, digest: bytes) -> None:
    store = limits(proxy.url)
    store.take(Draw(digest, DAY, 10 * DAY))
    proxy.lose("unsent")
    with pytest.raises(CounterUnavailable):
        store.take(Draw(digest, DAY, 10 * DAY))
    assert round(store.take(Draw(digest, DAY, 10 * DAY)).used / DAY) == 2
