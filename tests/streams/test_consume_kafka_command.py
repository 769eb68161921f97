"""``counters consume`` of a topic: it ends, waits, and says what it has to say as with Redis."""

from __future__ import annotations

import json
import os
import signal
import time
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError
from django.test import override_settings

from django_counters.registry import registry
from django_counters.testing import assert_counts
from tests.cached.test_flush_command import ended_when
from tests.streams.test_consume_command import output

pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")

if TYPE_CHECKING:
    from tests.streams.topics import Topic

pytestmark = pytest.mark.django_db(transaction=True)


def test_all_that_is_there(topic: Topic) -> None:
    topic.add(*"abc")
    topic.add(*"de", part=1)
    assert output("clicks").startswith("5 messages counted in ")
    assert json.loads(output("clicks", "--json")) == {
        **{"database": "default", "stream": "clicks", "pages": 0, "messages": 0, "counters": 0},
        **{"poison": 0, "quarantined": {}, "incidents": [], "busy": [], "repeats": 0},
    }
    assert_counts({"all": 5})


def test_a_topic_that_was_made_again_fails_it(topic: Topic) -> None:
    topic.add(*"abc")
    output("clicks")
    topic.delete()
    topic.make()
    topic.add("d")
    with pytest.raises(CommandError, match="1 incidents: 0: the topic was made again"):
        output("clicks")
    assert_counts({"all": 4})


def test_brokers_that_are_away_fail_it_within_seconds(topic: Topic) -> None:
    began = time.monotonic()
    away = topic.declared(LOCATION="127.0.0.1:1")
    with (
        override_settings(COUNTERS_STREAMS={"clicks": away}),
        pytest.raises(CommandError, match=r"kafka 127\.0\.0\.1:1"),
    ):
        output("clicks")
    assert time.monotonic() - began < 15


@pytest.mark.many_writers
def test_a_loop_goes_on_when_the_brokers_are_back(topic: Topic) -> None:
    """Brokers of its own: nothing else may find them away."""
    from example_project.broker import Broker
    from tests.streams.topics import Topic as Made

    own = Made(Broker())
    own.add("a")
    err = StringIO()

    def counted(position: str) -> bool:
        known = registry.positions("default").of("stream clicks")
        return "0" in known and known["0"].position == position

    steps: list[str] = []

    def done() -> bool:
        if not steps and counted("1"):
            own.broker.tell("down", 1)
            steps.append("down")
        elif steps == ["down"] and err.getvalue():
            own.broker.tell("up", 1)
            own.add("b")
            steps.append("up")
        return counted("2")

    with override_settings(COUNTERS_STREAMS={"clicks": own.declared()}), ended_when(done):
        output("clicks", "--loop=0.02", stderr=err)
    own.broker.end()
    assert steps == ["down", "up"]
    assert "kafka 127.0.0.1" in err.getvalue()
    assert_counts({"all": 2})


@pytest.mark.rare
def test_asked_to_end_in_the_middle_of_a_page(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is finished, and no other one is begun."""
    topic.add("a", "a")
    asked: list[int] = []

    def decode(message: Any) -> list[tuple[str, int]]:
        os.kill(os.getpid(), signal.SIGTERM)
        asked.append(message.offset)
        return [("a", 1)]

    monkeypatch.setattr("tests.streams.decoding.topic_clicks", decode)
    with override_settings(COUNTERS_STREAMS={"clicks": topic.declared(PAGE=1)}):
        said = output("clicks", "--loop=0.02")
    assert (said, asked) == ("1 messages counted in 1 pages: 1 totals changed", [0])
    assert_counts({"a": 1})
