"""Brokers that are away or say no, as a consumer finds them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from django_counters.contrib.streams.kafka import topic_of
from django_counters.errors import CounterUnavailable
from django_counters.registry import registry

pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")
from django_counters.contrib.streams import kafka_consumer
from django_counters.contrib.streams import kafka_topic as topics
from tests.redis.counting import eventually
from tests.streams.topics import all_of, until
from tests.streams.topics import positions as places

if TYPE_CHECKING:
    from tests.streams.topics import Topic

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_vanished_range_is_noticed_though_the_brokers_were_away(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are told once, and the first one is an error: nothing is left out because of it."""
    topic.add("a", "b")
    topic.counted()
    topic.add(*"cdef")
    topic.forget(4)
    failed: list[str] = []

    def step(name: str) -> None:
        if name == "poll" and consumer._known and not failed:
            failed.append(name)
            with topic.away():
                pass
            # What comes meanwhile is one answer.
            monkeypatch.setattr(kafka_consumer, "WAIT", 2.0)

    with topic.consumer(step=step) as consumer:
        with pytest.raises(CounterUnavailable):
            until(consumer, lambda done: done.messages)
        monkeypatch.undo()
        done = all_of(consumer)
    assert (done.messages, done.incidents) == (2, ["lost: 0 after 1"])
    assert places(registry.positions("default").of("stream clicks")) == {"0": "6"}


def test_brokers_that_are_away_are_an_error_within_seconds(topic: Topic) -> None:
    away = topic.declared(LOCATION="127.0.0.1:1")
    with override_settings(COUNTERS_STREAMS={"clicks": away}):
        began = time.monotonic()
        with pytest.raises(CounterUnavailable, match=r"kafka 127\.0\.0\.1:1.*refused"):
            topic.counted()
        assert time.monotonic() - began < 15


def test_a_topic_that_is_not_there_is_an_error(topic: Topic) -> None:
    with (
        override_settings(COUNTERS_STREAMS={"clicks": topic.declared(TOPIC="nowhere")}),
        pytest.raises(CounterUnavailable, match=r"nowhere: .*nknown topic"),
    ):
        topic.counted()


def test_an_error_of_before_is_not_said_again(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "PATIENCE", 1.5)
    asked = topics.KafkaTopic(topic_of(topic.broker.address, topic.declared()))
    with topic.away(), pytest.raises(CounterUnavailable, match="refused"):
        asked.known()
    topic.delete()
    assert eventually(lambda: "nknown topic" in why(asked))
    assert "refused" not in why(asked)


def why(asked: topics.KafkaTopic) -> str:
    with pytest.raises(CounterUnavailable) as caught:
        asked.known()
    return str(caught.value)
