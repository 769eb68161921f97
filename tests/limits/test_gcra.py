"""Buckets of rate limits: what is admitted, however many ask at once, wherever they are kept."""

from __future__ import annotations

import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from math import ceil
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import transaction
from django.db.models import F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_counters import clock
from django_counters.access import Rate, rate_of
from django_counters.contrib.limits import Limit, LimitResult
from django_counters.contrib.limits.algorithms import Gcra
from django_counters.contrib.limits.models import CounterLimit
from django_counters.errors import InvalidConfiguration
from django_counters.redis.keys import state
from tests.concurrency.crowd import in_turns
from tests.limits.moved import STORES, Kept, moved
from tests.redis.counting import eventually, server

PATIENCE = 10
SLOW = Rate(10, 86_400)
SECOND = 1_000_000
FRESH = pytest.mark.parametrize("fresh", [True, False], ids=["new", "present"])


WHO = "somebody"


def some_name() -> str:
    """A limit of which nobody has taken anything."""
    return secrets.token_hex(8)


def limit(name: str, rate: Rate = SLOW, *, cache: str | None) -> Limit:
    return Limit(name, rate, cache=cache, timeout=PATIENCE)


def take(name: str, rate: Rate = SLOW, *, cache: str | None, cost: int = 1) -> LimitResult:
    return limit(name, rate, cache=cache).take(WHO, cost)


@pytest.fixture(params=["default", None], ids=["redis", "database"])
def cache(request: pytest.FixtureRequest, db: None) -> str | None:
    """Where the buckets are: the alias of a Redis, or None."""
    found: str | None = request.param
    return found


class TestRates:
    @pytest.mark.parametrize(
        ("text", "rate"),
        [
            ("10/min", Rate(10, 60)),
            ("5/s", Rate(5, 1)),
            ("5/seconds", Rate(5, 1)),
            ("100/hour", Rate(100, 3_600)),
            ("1000/d", Rate(1_000, 86_400)),
            ("30/10s", Rate(30, 10)),
            (" 7 / 2 minutes ", Rate(7, 120)),
            ("1000000/s", Rate(1_000_000, 1)),
            ("1/366d", Rate(1, 366 * 86_400)),
        ],
    )
    def test_what_a_text_means(self, text: str, rate: Rate) -> None:
        assert rate_of(text) == rate

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            *((text, "is not a rate") for text in ("", "10", "x/y", "5/week", "-1/s", "5/min/2")),
            *((text, "is not a rate") for text in ("1.5/s", "٣/s", "5/s x", "/s", "5/", "5/mn")),
            ("0/s", "admits nothing"),
            ("5/0s", "above zero"),
            ("1/367d", "a year"),
            ("1000001/s", "microsecond"),
        ],
    )
    def test_what_means_none(self, text: str, problem: str) -> None:
        with pytest.raises(ValueError, match=problem):
            rate_of(text)

    def test_something_else_than_a_text(self) -> None:
        with pytest.raises(ValueError, match="None is not a rate"):
            rate_of(None)


class TestOneAfterTheOther:
    def test_as_many_as_it_says_and_no_more(self, cache: str | None) -> None:
        name = some_name()
        taken = [take(name, cache=cache) for _ in range(12)]
        assert [each.allowed for each in taken] == [True] * 10 + [False] * 2
        assert [each.remaining for each in taken] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]
        assert [each.retry_after for each in taken[:10]] == [0] * 10
        # One comes back in a tenth of a day; the test has taken some of that.
        assert all(8_640 - PATIENCE < each.retry_after <= 8_640 for each in taken[10:])

    def test_each_name_and_each_rate_has_a_bucket(self, cache: str | None) -> None:
        name, one = some_name(), Rate(1, 86_400)
        assert take(name, one, cache=cache).allowed
        assert not take(name, one, cache=cache).allowed
        assert take(some_name(), one, cache=cache).allowed
        assert take(name, Rate(1, 86_401), cache=cache).allowed
        assert take(name, Rate(2, 86_400), cache=cache).allowed

    @pytest.mark.parametrize("cost", [0, -1, 11])
    def test_a_cost_that_no_bucket_has(self, cache: str | None, cost: int) -> None:
        with pytest.raises(ValueError, match="never admits more"):
            take(some_name(), cache=cache, cost=cost)

    def test_long_rates(self, cache: str | None) -> None:
        """Numbers that are too large for 32 bits, and that Lua would round."""
        for rate in (rate_of("1/366d"), rate_of("1000000/s"), rate_of("31000000/366d")):
            name = some_name()
            first = take(name, rate, cache=cache, cost=rate.number)
            assert first.allowed
            assert first.remaining < rate.number
        assert take(some_name(), rate_of("7/366d"), cache=cache, cost=6).remaining == 1

    def test_the_clock_of_this_machine_is_not_asked(
        self, cache: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Machines do not agree on the time; whoever is ahead would be admitted sooner."""
        name = some_name()
        assert take(name, cache=cache, cost=10).allowed
        tomorrow = clock.utc() + timedelta(days=1)
        monkeypatch.setattr(clock, "utc", lambda: tomorrow)
        monkeypatch.setattr(time, "time", tomorrow.timestamp)
        assert not take(name, cache=cache).allowed


def key_of(name: str, rate: Rate = SLOW) -> str:
    """What Redis calls the bucket of a name in the default cache."""
    prefix = django_settings.CACHES["default"]["KEY_PREFIX"]
    return state("l", digest_of(name, rate), prefix)


def digest_of(name: str, rate: Rate) -> bytes:
    return limit(name, rate, cache=None)._draw(WHO, 1).digest


def arrive(name: str, rate: Rate, seconds: float, cache: str | None) -> None:
    """Move the moment at which a bucket is full."""
    by = round(seconds * SECOND)
    if cache:
        with server() as direct:
            direct.incrby(key_of(name, rate), by)
    else:
        row = CounterLimit.objects.filter(digest=digest_of(name, rate))
        assert row.update(arrival=F("arrival") + by) == 1


class TestTime:
    def test_a_clock_that_was_set_back(self, cache: str | None) -> None:
        """An hour: whoever may send ten in a second does not wait for an hour."""
        name, rate = some_name(), Rate(10, 10)
        take(name, rate, cache=cache, cost=10)
        arrive(name, rate, 3_600, cache)
        assert take(name, rate, cache=cache)[:2] == (True, 0)
        assert take(name, rate, cache=cache).retry_after <= 1


class TestRedis:
    def test_it_goes_when_it_is_full(self) -> None:
        name = some_name()
        take(name, Rate(10, 0.1), cache="default")
        assert name not in key_of(name, Rate(10, 0.1))
        with server() as direct:
            assert eventually(lambda: not direct.exists(key_of(name, Rate(10, 0.1))))

    def test_sites_with_another_prefix_have_buckets_of_their_own(self, settings: Any) -> None:
        name, declared = some_name(), django_settings.CACHES["default"]
        for prefix in ("one", "two", ""):
            settings.CACHES = {"default": {**declared, "KEY_PREFIX": prefix}}
            assert [take(name, cache="default").allowed for _ in range(11)].count(True) == 10

    def test_a_value_of_somebody_else(self) -> None:
        name = some_name()
        with server() as direct:
            direct.set(key_of(name), "strange", px=5_000)
            assert take(name, cache="default").remaining == 9
            direct.delete(key_of(name))
            direct.lpush(key_of(name), "a")
            assert take(name, cache="default").counted is False
            direct.delete(key_of(name))

    def test_a_cache_that_is_none(self) -> None:
        with pytest.raises(InvalidConfiguration, match="no cache 'nowhere'"):
            take(some_name(), cache="nowhere")


@pytest.mark.django_db
class TestDatabase:
    def test_one_row_and_no_name(self) -> None:
        for _ in range(2):
            Limit("letters", SLOW, cache=None).take("mail@example.org")
        assert len(bytes(CounterLimit.objects.get().digest)) == 32

    def test_what_is_rolled_back_is_in_the_bucket_again(self) -> None:
        name = some_name()
        with pytest.raises(KeyError), transaction.atomic():
            take(name, cache=None, cost=10)
            raise KeyError
        assert take(name, cache=None).remaining == 9

    @pytest.mark.django_db(databases=["default", "other"])
    def test_using_chooses_the_database(self) -> None:
        Limit("a", SLOW, cache=None, using="other").take(WHO)
        assert CounterLimit.objects.using("other").count() == 1
        assert not CounterLimit.objects.exists()


@pytest.mark.rare
@FRESH
def test_a_hundred_at_once_admit_ten_in_redis(fresh: bool) -> None:
    name, barrier = some_name(), threading.Barrier(100)
    before = 0 if fresh else sum(take(name, cache="default").allowed for _ in range(3))

    def work(_: int) -> bool:
        barrier.wait(60)
        return take(name, cache="default").allowed

    with ThreadPoolExecutor(100) as pool:
        assert before + sum(pool.map(work, range(100))) == 10


@FRESH
@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_a_hundred_at_once_admit_ten_in_the_database(fresh: bool) -> None:
    name = some_name()
    before = 0 if fresh else sum(take(name, cache=None).allowed for _ in range(3))
    admitted = in_turns(lambda _: take(name, cache=None).allowed, 100)
    assert before + sum(admitted) == 10


class Plain:
    """A bucket as a plain number of tokens, counted in their smallest part."""

    def __init__(self, number: int, interval: int) -> None:
        self.full = number * interval
        self.interval = interval
        self.held, self.now = self.full, 0

    def take(self, moment: int, cost: int) -> tuple[bool, int, int]:
        self.held = min(self.full, self.held + moment - self.now)
        self.now = moment
        wanted = cost * self.interval
        admitted = self.held >= wanted
        short = 0 if admitted else wanted - self.held
        self.held -= wanted if admitted else 0
        return admitted, self.held // self.interval, short


@st.composite
def visits(draw: st.DrawFn) -> tuple[Rate, list[tuple[int, int]]]:
    """A rate, and microseconds to wait before each of some takes, with their costs."""
    number = draw(st.integers(1, 20))
    rate = Rate(number, draw(st.sampled_from([0.001, 1, 7, 60, 86_400])))
    interval = ceil(rate.seconds * SECOND / number)
    pauses = st.one_of(st.integers(0, 3 * interval), st.integers(0, 2 * number * interval))
    return rate, draw(st.lists(st.tuples(pauses, st.integers(1, number)), max_size=30))


@pytest.mark.django_db
@STORES
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(visited=visits())
def test_as_a_plain_bucket(kept: Kept, visited: tuple[Rate, list[tuple[int, int]]]) -> None:
    """The moved arrival against tokens that are counted, to the microsecond."""
    rate, takes = visited
    interval = ceil(rate.seconds * SECOND / rate.number)
    plain, bucket = Plain(rate.number, interval), Gcra(rate.number, interval)
    with moved() as store:
        plain.now = store.now
        for pause, cost in takes:
            store.now += pause
            told = bucket.result(kept(store, bucket.draw(store.digest, cost)), cost)
            admitted, held, short = plain.take(store.now, cost)
            more = (held + 1) * interval - plain.held
            assert told == LimitResult(admitted, held, short / SECOND, more / SECOND)
