"""What a cached counter asks of Redis and of the database, as the servers saw it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from django.db import transaction

from django_counters import clock
from django_counters.cached import requests as scripts
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.models import Counter
from django_counters.redis.commands import Script
from django_counters.tokens import mint

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPTS = {name: script for name, script in vars(scripts).items() if type(script) is Script}
VERBS = {script.sha: name.lower() for name, script in SCRIPTS.items()}
PAGE = [f"views:{number}" for number in range(500)]


@contextmanager
def watched(prefix: str, using: str = "default") -> Iterator[list[str]]:
    """The verbs that clients send to what is kept under a prefix, in order."""
    ours = slots_of(using, prefix).keys(0)[0].rpartition(":0}")[0]
    told: list[str] = []
    mark = secrets.token_hex(8)
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client, client.monitor() as monitor:
        # A server that does not know a script has to be told it once, in a round trip more.
        for script in SCRIPTS.values():
            client.script_load(script.text)
        yield told
        client.echo(mark)
        while mark not in (seen := monitor.next_command())["command"]:
            # What a script does within is no command of a client.
            if ours in seen["command"] and seen["client_type"] != "lua":
                words = seen["command"].split(" ")
                told.append(VERBS.get(words[1], words[1]) if words[0] == "EVALSHA" else words[0])


@pytest.fixture
def warm(cached: str) -> str:
    """The slots are in use, the scripts are loaded, and the totals of the page are known."""
    flush()
    Counter.objects.values_of([*PAGE, "views:a", "views:b"], consistency="cached")
    Counter.objects.increment("views:a", token=mint(clock.utc()))
    Counter.objects.increment("views:a")
    return cached


def test_a_change_is_one_round_trip_and_no_query(warm: str, django_assert_num_queries: Any) -> None:
    with watched(warm) as told, django_assert_num_queries(0):
        assert Counter.objects.increment("views:a") == 3
        assert Counter.objects.decrement("views:a", 5) == -2
        assert Counter.objects.increment("views:a", token=mint(clock.utc())) == -1
        values = Counter.objects.increment_many(dict.fromkeys(PAGE, 3))
        assert values == dict.fromkeys(PAGE, 3)
        assert Counter.objects.decrement_many(dict.fromkeys(PAGE, 4)) == dict.fromkeys(PAGE, -1)
    assert told == ["add_only", "add_only", "add_once", "add", "add"]


def test_an_unknown_total_is_asked_for_once(cached: str, django_assert_num_queries: Any) -> None:
    flush()
    Counter.objects.values_of(["views:b"], consistency="cached")
    Counter.objects.increment("views:b")
    with watched(cached) as told, django_assert_num_queries(1):
        assert Counter.objects.increment("views:a") == 1
        assert Counter.objects.increment("views:a") == 2
    # The total before was known, so the shortest way is tried first, in vain.
    assert told == ["add_only", "add", "fill", "add"]


def test_a_page_is_one_round_trip_and_a_query_if_it_is_exact(
    warm: str, django_assert_num_queries: Any
) -> None:
    Counter.objects.increment_many(dict.fromkeys(PAGE, 3))
    with watched(warm) as told, django_assert_num_queries(0):
        found = Counter.objects.values_of(PAGE, consistency="cached", max_age=600)
        assert found == dict.fromkeys(PAGE, 3)
        assert Counter.objects.read(PAGE[0], consistency="cached", max_age=600).value == 3
    assert told == ["look", "look"]
    with watched(warm) as told, django_assert_num_queries(1):
        assert Counter.objects.values_of(PAGE) == dict.fromkeys(PAGE, 3)
    assert told == ["look"]


def test_a_page_that_is_not_known_is_one_query(cached: str, django_assert_num_queries: Any) -> None:
    flush()
    Counter.objects.values_of(["views:a"], consistency="cached")
    with watched(cached) as told, django_assert_num_queries(1):
        Counter.objects.values_of(PAGE, consistency="cached")
    # What is filled in goes by slots, all of them in one round trip.
    assert (told[0], set(told[1:]), len(told) <= 17) == ("look", {"fill"}, True)


def test_thousands_are_asked_for_in_pages(warm: str, django_assert_num_queries: Any) -> None:
    many = [f"views:{number}" for number in range(4001)]
    Counter.objects.increment_many({many[0]: 1, many[-1]: 2})
    with watched(warm) as told, django_assert_num_queries(3):
        found = Counter.objects.values_of(many)
    assert (len(found), found[many[0]], found[many[-1]], sum(found.values())) == (4001, 1, 2, 3)
    assert told == ["look"] * 3


def test_a_transaction_is_one_round_trip(warm: str) -> None:
    with watched(warm) as told, transaction.atomic():
        for _ in range(10):
            Counter.objects.increment("views:a")
            Counter.objects.increment_many({"views:a": 1, "views:b": 2})
    assert told == ["add"]
    assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 22, "views:b": 20}


def test_a_transaction_is_one_round_trip_for_each_savepoint(warm: str) -> None:
    with watched(warm) as told, transaction.atomic():
        Counter.objects.increment("views:a")
        with transaction.atomic():
            Counter.objects.increment("views:a", 2)
            Counter.objects.increment("views:b", 2)
        Counter.objects.increment("views:b", 4)
    assert told == ["add", "add"]
    assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 5, "views:b": 6}


def test_what_comes_to_nothing_is_not_sent(warm: str) -> None:
    with watched(warm) as told:
        with transaction.atomic():
            Counter.objects.increment("views:a")
            Counter.objects.decrement("views:a")
        with pytest.raises(KeyError), transaction.atomic():
            Counter.objects.increment("views:a")
            raise KeyError
    assert told == []
