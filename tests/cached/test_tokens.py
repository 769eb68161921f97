"""Tokens of cached counters: counted once, in Redis, without Redis, and when they are landed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from django.conf import settings
from django.db import transaction
from django.test import override_settings

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import pending_in, slots_of
from django_counters.cached.strategy import AHEAD, TOKEN_WINDOW
from django_counters.errors import (
    CounterOverflow,
    CounterUnavailable,
    InvalidToken,
    OutcomeUnknown,
    TokenConflict,
    TokenExpired,
    UnsupportedToken,
)
from django_counters.models import Counter, CounterIncident
from django_counters.redis.keys import SLOTS
from django_counters.testing import override_counters
from django_counters.tokens import mint, moment_of
from django_counters.types import Delta
from tests.cached.test_flush import Killed, kill_at
from tests.redis.proxy import Proxy, proxied

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
DEAD = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}
RANDOM = UUID("64e7ad02-e4b9-4004-8f05-49149a134018")
MINUTE = timedelta(minutes=1)


def fresh() -> UUID:
    return mint(clock.utc())


def count(token: object, by: int = 1, key: str = "views:a") -> Any:
    return Counter.objects.increment(key, by, token=token)  # type: ignore[arg-type]


def value() -> int:
    return Counter.objects.value("views:a")


@pytest.fixture
def warm(cached: str) -> None:
    """The total is known in Redis."""
    flush()
    Counter.objects.values_of(["views:a"], consistency="cached")


@pytest.fixture
def lossy(cached: str) -> Iterator[Proxy]:
    """The namespace is reached through a proxy; its scripts are loaded."""
    with proxied() as proxy:
        default = settings.CACHES["default"]
        caches = {**settings.CACHES, "proxied": {**default, "LOCATION": proxy.url}}
        views = {"STRATEGY": "cached", "CACHE": "proxied", "OPTIONS": {"timeout": 2}}
        with override_settings(CACHES=caches):
            Counter.objects.increment("views:warm", token=fresh())
            with override_counters(views=views):
                yield proxy


@pytest.mark.usefixtures("warm")
def test_a_replay_returns_what_was_returned_and_counts_nothing() -> None:
    token = fresh()
    first = count(token, 5)
    assert (first, first.replayed) == (5, False)
    count(fresh(), 10)
    for _ in range(2):
        for again in (count(token, 5), count(str(token), 5), count(str(token).upper(), 5)):
            assert (again, again.replayed) == (5, True)
        assert value() == 15
        flush()
    assert value() == 15


def test_a_replay_returns_what_was_returned_where_the_total_was_not_known() -> None:
    token = fresh()
    assert count(token, 5) == 5
    Counter.objects.increment("views:a", 10)
    flush()
    again = count(token, 5)
    assert (again, again.replayed) == (5, True)
    assert value() == 15


def test_another_change_is_a_conflict() -> None:
    token = fresh()
    count(token)
    for by, key in ((2, "views:a"), (-1, "views:a"), (1, "views:b"), (1, "views:c")):
        with pytest.raises(TokenConflict) as caught:
            count(token, by, key)
        assert str(token) in str(caught.value)
    assert value() == 1


@pytest.mark.parametrize("other", ["views:b", "views:c", "exact", "orders:a"])
@pytest.mark.parametrize("order", [1, -1])
def test_what_was_acknowledged_counts_once_whatever_its_token_stands_for_elsewhere(
    cached: str, other: str, order: int
) -> None:
    """Neither side sees the other: the key of the token is evicted, or not asked for at all."""
    token, amounts = fresh(), {"views:a": 3, other: 5}
    with override_counters(orders={"STRATEGY": "ledger"}):
        for key in list(amounts)[::order]:
            assert count(token, amounts[key], key).replayed is False
            _evict(cached, token)
        for _ in range(3):
            assert flush().quarantined == {}
            assert Counter.objects.values_of(amounts) == amounts
            _evict(cached, token)
            count(token, 3)
    _told_of(token)


def test_another_amount_that_was_acknowledged_counts_once_too(cached: str) -> None:
    token = fresh()
    for by in (3, 5, 3, 5):
        count(token, by)
        assert flush().quarantined == {}
        _evict(cached, token)
    assert value() == 8
    _told_of(token)


def _told_of(token: UUID) -> None:
    (incident,) = CounterIncident.objects.all()
    assert incident.kind == CounterIncident.Kind.CONFLICT
    assert list(incident.detail["counted"]) == [str(token)]


def test_the_clock_of_redis_says_what_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the database would not take any more must not be acknowledged, whoever counts it."""
    old, new = mint(clock.utc() - 3 * TOKEN_WINDOW), mint(clock.utc())
    with monkeypatch.context() as wrong:
        wrong.setattr(clock, "utc", lambda: moment_of(old))
        with pytest.raises(TokenExpired, match=str(old)):
            count(old)
        assert count(new) == 1
    assert flush().quarantined == {}
    assert value() == 1


def test_a_token_is_of_the_last_day() -> None:
    for age in (TOKEN_WINDOW + MINUTE, -AHEAD - MINUTE, timedelta(days=400)):
        with pytest.raises(TokenExpired):
            count(mint(clock.utc() - age))
    assert value() == 0
    for number, age in enumerate((TOKEN_WINDOW - MINUTE, -AHEAD + MINUTE, timedelta(0)), 1):
        token = mint(clock.utc() - age)
        assert count(token) == number
        assert count(token).replayed
        flush()
        assert value() == number


def test_a_text_is_no_token_here() -> None:
    for token in ("order 7", str(RANDOM), RANDOM, "x" * 255):
        with pytest.raises(UnsupportedToken) as caught:
            count(token)
        assert "token_of()" in str(caught.value)
    with pytest.raises(InvalidToken):
        count("")
    assert value() == 0


def test_a_token_of_many_is_refused() -> None:
    with pytest.raises(UnsupportedToken):
        Counter.objects.increment_many({"views:a": 1}, token=fresh())
    with pytest.raises(UnsupportedToken):
        Counter.objects.increment_many({"plain": 1, "views:a": 1}, token="text")
    assert Counter.objects.values_of(["views:a", "plain"]) == {"views:a": 0, "plain": 0}


def test_the_key_of_a_token_may_be_evicted(cached: str) -> None:
    token = fresh()
    count(token, 5)
    _evict(cached, token)
    assert count(token, 5).replayed
    _evict(cached, token)
    with pytest.raises(TokenConflict):
        count(token, 6)
    # Where it was sealed meanwhile, and is not landed.
    with pytest.raises(Killed):
        flush(step=kill_at("apply"))
    assert count(token, 5).replayed
    flush()
    assert value() == 5


def _evict(prefix: str, token: UUID) -> None:
    slots = slots_of("default", prefix)
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        keys = [slots.token(slot, token.hex) for slot in range(SLOTS)]
        client.delete(*keys)


def test_after_it_has_landed_the_database_remembers(cached: str) -> None:
    token = fresh()
    count(token, 5)
    flush()
    _evict(cached, token)
    # Redis knows nothing of it any more, so it takes it for new.
    assert count(token, 5).replayed is False
    report = flush()
    assert (report.quarantined, value()) == ({}, 5)
    assert Counter.objects.values_of(["views:a"], consistency="cached") == {"views:a": 5}


@pytest.mark.parametrize("other", ["ledger", "exact"])
def test_what_was_counted_in_another_way_counts_once_with_it(other: str) -> None:
    token = fresh()
    with override_counters(views={"STRATEGY": other}):
        count(token, 5)
    count(token, 5)
    flush()
    assert value() == 5
    with override_counters(views={"STRATEGY": other}):
        assert count(token, 5).replayed
    assert value() == 5


def test_in_a_transaction() -> None:
    token = fresh()
    with pytest.raises(KeyError), transaction.atomic():
        count(token, 5)
        raise KeyError
    assert value() == 0
    with transaction.atomic():
        count(token, 5)
        count(fresh(), 10)
        count(token, 5)
    assert value() == 15
    assert count(token, 5).replayed


def test_immediately_in_a_transaction() -> None:
    token = fresh()
    with pytest.raises(KeyError), transaction.atomic():
        assert Counter.objects.increment("views:a", token=token, immediately=True) == 1
        raise KeyError
    assert count(token).replayed
    assert value() == 1


def test_in_a_collector() -> None:
    token = fresh()
    with Counter.objects.collect():
        Counter.objects.increment("views:a", 10)
        count(token, 5)
        count(token, 5)
    assert value() == 15


@pytest.mark.parametrize("detour", ["raise", "exact"])
def test_without_redis_and_ledger_it_is_refused(detour: str) -> None:
    token = fresh()
    views = {**DEAD, "ON_REDIS_DOWN": detour}
    with override_counters(views=views), pytest.raises(CounterUnavailable):
        count(token)
    assert count(token).replayed is False
    assert value() == 1


@pytest.mark.parametrize("fault", ["swallow", "close", "reset", "half", "unsent"])
def test_a_lost_answer_with_a_token_is_counted_once(lossy: Proxy, fault: Any) -> None:
    token = fresh()
    lossy.lose(fault)
    count(token, 5)
    count(token, 5)
    flush()
    assert value() == 5
    assert count(token, 5).replayed
    flush()
    assert value() == 5


def test_the_detour_does_not_say_that_nothing_was_counted_where_that_is_not_known(
    lossy: Proxy,
) -> None:
    token = fresh()
    count(token, 5, "exact")
    lossy.lose("swallow")
    with pytest.raises(OutcomeUnknown):
        count(token, 3)
    flush()
    assert value() == 3


def test_what_overflows_with_a_token_was_not_counted() -> None:
    token = fresh()
    count(fresh(), 2**62)
    with pytest.raises(CounterOverflow):
        count(token, 2**62)
    assert count(token, 1).replayed is False
    assert value() == 2**62 + 1


def test_one_that_was_held_up_for_days_is_quarantined() -> None:
    """Whether it was counted before can no longer be told."""
    token = mint(clock.utc() - timedelta(days=3))
    pending = pending_in("default", 10, "default")
    window = (timedelta(days=4), AHEAD)
    pending.send(pending.add_once("views:a", Delta("views:a", 5), token.hex, -1, window))
    Counter.objects.increment("views:a", 2)
    Counter.objects.increment("views:b", 3)
    report = flush()
    assert report.quarantined == {"views:a": 5}
    (incident,) = CounterIncident.objects.all()
    assert incident.detail["reason"] == "TokenExpired"
    assert (incident.detail["amounts"], incident.detail["token"]) == ({"views:a": 5}, str(token))
    assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 2, "views:b": 3}
