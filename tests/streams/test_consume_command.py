"""``counters consume``: all that is there, or a loop that ends when it is asked to."""

from __future__ import annotations

import json
import os
import signal
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_counters.contrib.streams.redis import Entries, RedisStream
from django_counters.registry import registry
from django_counters.testing import assert_counts
from tests.cached.test_flush_command import ended_when
from tests.streams.conftest import Clicks

pytestmark = pytest.mark.django_db(transaction=True)


def output(*options: str, **streams: Any) -> str:
    out = StringIO()
    call_command("counters", "consume", *options, stdout=out, **streams)
    return out.getvalue().strip()


def test_all_that_is_there(clicks: Clicks) -> None:
    clicks.add(*"abcde")
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(PAGE=2)}):
        said = output("clicks")
    assert said == "5 messages counted in 3 pages: 8 totals changed"
    assert json.loads(output("clicks", "--json")) == {
        **{"database": "default", "stream": "clicks", "pages": 0, "messages": 0, "counters": 0},
        **{"poison": 0, "quarantined": {}, "incidents": [], "busy": []},
        "repeats": 0,
    }
    assert_counts({"all": 5})


def test_a_stream_that_is_not_declared(clicks: Clicks) -> None:
    with pytest.raises(CommandError, match=r"no stream 'klicks'.*It has: clicks\."):
        output("klicks")


def test_poison_fails_it(clicks: Clicks) -> None:
    clicks.add("a", "no key", "a")
    with pytest.raises(CommandError, match="1 messages can't be counted"):
        output("clicks")
    assert_counts({"a": 2})
    clicks.add("a", raises="ImportError")
    decode = "tests.streams.decoding.raising"
    with (
        override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(DECODE=decode)}),
        pytest.raises(CommandError, match="`DECODE` of clicks can't work"),
    ):
        output("clicks")


def test_a_redis_that_is_away_fails_it(clicks: Clicks) -> None:
    away = clicks.declared(LOCATION="unix:///nowhere/at/all")
    with (
        override_settings(COUNTERS_STREAMS={"clicks": away}),
        pytest.raises(CommandError, match=r"redis:.*nowhere"),
    ):
        output("clicks")


@pytest.mark.many_writers
def test_a_loop_goes_on_and_ends_when_it_is_asked_to(clicks: Clicks) -> None:
    ids = clicks.add("a", "b")
    source = "stream clicks"

    def counted() -> bool:
        known = registry.positions("default").of(source)
        return clicks.parts[0] in known and known[clicks.parts[0]].position == ids[-1]

    with ended_when(counted):
        output("clicks", "--loop=0.02")
    assert_counts({"all": 2})


@pytest.mark.rare
def test_asked_to_end_in_the_middle_of_a_page(
    clicks: Clicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is finished, and no other one is begun."""
    clicks.add("a", "a")
    since = RedisStream.since

    def asked(stream: RedisStream, position: str, most: int) -> Entries:
        if stream.name == clicks.parts[0] and not position:
            os.kill(os.getpid(), signal.SIGTERM)
        return since(stream, position, most)

    monkeypatch.setattr(RedisStream, "since", asked)
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(PAGE=1)}):
        said = output("clicks", "--loop=0.02")
    assert said == "1 messages counted in 1 pages: 2 totals changed"
    assert_counts({"a": 1, "all": 1})
