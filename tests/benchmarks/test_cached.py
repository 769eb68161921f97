"""The cases of cached counters count what they say; no test asserts a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest
import redis
from django.conf import settings
from django.db import connection
from django.db.models import F

from benchmarks import database
from benchmarks.cases import cached, flush
from benchmarks.harness import Pair, WrongSum, total
from benchmarks.run import all_groups
from django_counters.models import Counter
from django_counters.stores.redis.keys import SLOTS, Slots
from django_counters.upkeep.flush import LARGEST
from django_counters.upkeep.flush import flush as land

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("tables"),
]

Prepare = Callable[[], AbstractContextManager[Pair]]

CASES: dict[str, Prepare] = {
    "alone": partial(cached.alone, cached.as_it_is),
    "over TCP": partial(cached.alone, cached.over_tcp),
    "threads": partial(cached.together, cached.as_it_is),
    "cache": cached.beside_cache,
    "many": cached.many,
    "page": partial(cached.reading, 20),
    "one": partial(cached.reading, 1),
    "script": cached.script,
    "async": cached.awaited,
    "commit": cached.on_commit,
    "flush beside a loop": partial(flush.beside_loop, 3000),
    "flush beside a loop that commits once": partial(flush.beside_loop, 3000, once=True),
    "flush beside an upsert": partial(flush.beside_upsert, 3000),
}
every_case = pytest.mark.parametrize("prepare", CASES.values(), ids=CASES)


@every_case
def test_what_was_counted_is_stored(prepare: Prepare, apart: str) -> None:
    with prepare() as pair:
        subject, reference = total([pair.subject(), pair.subject()]), pair.reference()
        pair.verify(subject.operations, reference.operations)


@every_case
def test_a_value_that_is_one_too_high_is_a_wrong_sum(prepare: Prepare, apart: str) -> None:
    with prepare() as pair:
        subject, reference = pair.subject().operations, pair.reference().operations
        pair.verify(subject, reference)
        land()
        Counter.objects.update(value=F("value") + 1)
        _forget_totals(apart)
        with pytest.raises(WrongSum):
            pair.verify(subject, reference)


def _forget_totals(prefix: str) -> None:
    """Let cached reads ask for totals again."""
    slots = Slots("default", prefix)
    with cached.client() as client:
        client.delete(*(slots.keys(slot)[1] for slot in range(SLOTS)))


def test_each_side_is_asked_what_it_says(apart: str) -> None:
    with cached.client() as client, cached.alone(cached.as_it_is) as pair:
        client.config_resetstat()
        pair.subject()
        calls = client.info("commandstats")
        assert calls["cmdstat_evalsha"]["calls"] == cached.SLICE
        assert "cmdstat_incrby" not in calls
        client.config_resetstat()
        pair.reference()
        calls = client.info("commandstats")
        assert calls["cmdstat_incrby"]["calls"] == cached.SLICE
        assert "cmdstat_evalsha" not in calls


def test_the_port_is_open_for_its_cases_only(apart: str) -> None:
    before = cached.location()
    with cached.over_tcp():
        assert cached.location().startswith("redis://127.0.0.1:")
        with cached.client() as client:
            assert client.ping()
            opened = cached.location()
    assert cached.location() == before
    with redis.Redis.from_url(opened) as client, pytest.raises(redis.ConnectionError):
        client.ping()


def test_the_flush_lands_all_and_the_upsert_commits_batches_of_its_size(apart: str) -> None:
    with flush.beside_upsert(2 * LARGEST) as pair:
        seen: list[str] = []

        def note(execute: Callable[..., object], sql: str, *rest: object) -> object:
            seen.append(sql)
            return execute(sql, *rest)

        with connection.execute_wrapper(note):
            pair.reference()
        assert len([sql for sql in seen if "add_many" in sql]) == 2


def test_nothing_of_a_run_is_left_in_redis(server: str, apart: str) -> None:
    with redis.Redis.from_url(server) as client:
        present = settings.CACHES["default"]["KEY_PREFIX"]
        with database.apart(server) as prefix, cached.beside_cache() as pair:
            pair.subject()
            assert list(client.scan_iter(f"*{prefix}*"))
            assert client.exists(*_keys_of(prefix))
        assert not list(client.scan_iter(f"*{prefix}*"))
        assert not client.exists(*_keys_of(prefix))
        assert settings.CACHES["default"]["KEY_PREFIX"] == present


def _keys_of(prefix: str) -> list[str]:
    slots = Slots("default", prefix)
    return [key for slot in range(SLOTS) for key in slots.keys(slot)]


def test_the_rows_that_the_issue_asks_for_are_there() -> None:
    targets = {
        case.name: case.target and case.target.number
        for group in all_groups()
        for case in group.cases
        if case.name.startswith(("cached", "flush"))
    }
    assert targets == {
        **dict.fromkeys(("cached", "cached-threads", "cached-tcp", "cached-tcp-threads"), 0.75),
        "cached-cache": 4,
        "cached-many": 8,
        "cached-commit": 0.95,
        "flush-loop": 30,
        "flush": 0.7,
        **dict.fromkeys(
            (
                *("cached-socket", "cached-read", "cached-page", "cached-script", "cached-async"),
                "flush-few",
            )
        ),
        "flush-loop-once": None,
    }
