"""Counters that become cached or cease to be, and what is kept apart in one Redis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.cached.test_flush import Killed, kill_at
from tests.conftest import forget_pending
from tests.settling import roll_up
from tests.strategies.test_exact import ReadsElsewhere

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
CACHED: dict[str, Any] = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}
OTHERS: list[dict[str, Any]] = [
    {"STRATEGY": "exact"},
    {"STRATEGY": "sharded"},
    {"STRATEGY": "ledger"},
]


def value(**options: Any) -> int:
    return Counter.objects.value("views:a", **options)


def cached_value(max_age: float | None = None) -> int:
    found = Counter.objects.values_of(["views:a"], consistency="cached", max_age=max_age)
    return found["views:a"]


@pytest.mark.parametrize("other", OTHERS)
def test_what_waits_elsewhere_is_part_of_a_cached_value(other: dict[str, Any]) -> None:
    with override_counters(views=other):
        Counter.objects.increment("views:a", 10)
    assert cached_value() == 10
    assert Counter.objects.increment("views:a") == 11
    # Where it waits changes nothing of what it is.
    roll_up()
    assert (cached_value(3600), value()) == (11, 11)
    flush()
    roll_up()
    assert (cached_value(3600), value()) == (11, 11)


def test_what_still_waits_in_redis_is_flushed_later() -> None:
    """The flush knows where something waited before."""
    Counter.objects.increment("views:a", 1)
    flush()
    Counter.objects.increment("views:a", 10)
    with override_counters(views={}):
        assert value() == 1
        assert flush().counters == 1
        assert value() == 11
        assert Counter.objects.increment("views:a") == 12
    assert value() == 12


@pytest.fixture
def second(cached: str) -> Iterator[str]:
    """An alias that no field and no other namespace declares; its prefix."""
    default = settings.CACHES["default"]
    prefix = f"{default['KEY_PREFIX']}-2"
    caches = {**settings.CACHES, "second": {**default, "KEY_PREFIX": prefix}}
    with override_settings(CACHES=caches):
        yield prefix
        forget_pending("default", prefix)


@pytest.mark.usefixtures("second")
def test_from_one_redis_to_another() -> None:
    Counter.objects.increment("views:a", 1)
    flush()
    Counter.objects.increment("views:a", 10)
    with override_counters(views={**CACHED, "CACHE": "second"}):
        assert Counter.objects.increment("views:a", 100) == 101
        assert value() == 101
        # Both are flushed.
        assert flush().counters == 2
        assert value() == 111


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
class TestTwoDatabases:
    def test_each_has_its_own(self) -> None:
        assert Counter.objects.increment("views:a", 1) == 1
        assert Counter.objects.increment("views:a", 10, using="other") == 10
        assert Counter.objects.db_manager("other").increment("views:a", 10) == 20
        assert (value(), value(using="other")) == (1, 20)
        assert flush("other").counters == 1
        assert flush("other").counters == 0
        stored = [
            dict(Counter._base_manager.using(using).values_list("key", "value"))
            for using in ("default", "other")
        ]
        assert stored == [{}, {"views:a": 20}]
        flush()
        assert Counter._base_manager.get(key="views:a").value == 1
        assert (cached_value(), value(using="other")) == (1, 20)

    def test_a_token_is_of_one(self) -> None:
        token = mint(clock.utc())
        for using in ("default", "other"):
            told: Any = Counter.objects.increment("views:a", token=token, using=using)
            assert (told, told.replayed) == (1, False)

    def test_values_that_are_read_elsewhere_have_what_waits(self) -> None:
        with override_settings(DATABASE_ROUTERS=[ReadsElsewhere()]):
            Counter.objects.increment("views:a", 5)
            assert value() == 5
            assert Counter.objects.values_of(["views:a"]) == {"views:a": 5}
            assert Counter.objects.read("views:a").value == 5
            flush()
            assert (value(), cached_value()) == (5, 5)


def test_what_is_in_redis(cached: str, server: Any) -> None:
    """No word of a user is in a key, and what waits has no TTL."""
    keys = ["views:secret", "views:{secret}", "views:*secret", "views:größe"]
    for key in keys:
        Counter.objects.increment(key)
        Counter.objects.increment(key, token=mint(clock.utc()))
    with pytest.raises(Killed):
        flush(step=kill_at("apply"))
    for key in keys:
        Counter.objects.increment(key)
    tag = slots_of("default", cached).keys(0)[0].partition(":0}")[0]
    shape = re.compile(re.escape(tag) + r":\d+\}:(p|c|o|b\d|t:[0-9a-f]{32})")
    ours = [name for name in server.scan_iter("*", count=1000) if name.startswith(tag)]
    kinds: dict[str, set[str]] = {}
    for name in ours:
        match = shape.fullmatch(name)
        assert match is not None, name
        kinds.setdefault(match[1][0], set()).add(name)
    assert set(kinds) == {"p", "c", "o", "b", "t"}
    for name in kinds["p"] | kinds["b"] | kinds["o"]:
        assert server.ttl(name) == -1
    for name in kinds["c"] | kinds["t"]:
        assert 0 < server.ttl(name) <= 25 * 3600


def test_what_is_deleted_in_the_database_is_deleted() -> None:
    Counter.objects.increment("views:a", 5)
    flush()
    Counter._base_manager.all().delete()
    assert value() == 0
    Counter.objects.increment("views:a")
    flush()
    assert value() == Counter.objects.get(key="views:a").value == 1
