"""Buffers that publish to a topic of Kafka: what they publish is counted once, by a consumer."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from django.test import override_settings

from django_counters import clock
from django_counters.contrib import buffers
from django_counters.contrib.buffers.process import buffers as present
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.streams import publishing
from django_counters.errors import CounterUnavailable, InvalidConfiguration, OutcomeUnknown
from django_counters.models import Counter, CounterIncident
from django_counters.testing import assert_counts
from django_counters.tokens import mint

pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")
from django_counters.contrib.streams import kafka_outlet as outlet
from django_counters.contrib.streams.kafka import PUBLISHED
from tests.buffers.buffering import landed
from tests.streams.published import publish, reached
from tests.streams.topics import until

if TYPE_CHECKING:
    from tests.streams.topics import Topic

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("publishing_to_kafka"),
]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for an answer; a producer that is new needs half a second for it."""
    monkeypatch.setattr(outlet, "PATIENCE", 1.5)
    # An attempt whose answer is late could be followed by another one that is answered at once.
    later = {"retry.backoff.ms": 10_000, "retry.backoff.max.ms": 10_000}
    monkeypatch.setattr(outlet, "_USUAL", {**outlet._USUAL, **later})


def numbers(topic: Topic) -> list[int]:
    return [one["number"] for _, one in topic.published()]


def parts(topic: Topic) -> set[int]:
    return {part for part, _ in topic.published()}


@pytest.mark.parametrize("inner", ["exact"], indirect=True)
def test_sums_are_counted_by_the_consumer(topic: Topic, inner: str) -> None:
    Counter.objects.increment("hits:home", 3)
    Counter.objects.increment("hits:home", 4)
    Counter.objects.increment("hits:about")
    assert (landed(), Counter.objects.value("hits:home")) == (0, 7)
    assert buffers.flush() == 2
    # In the topic, and in nobody's value.
    assert Counter.objects.value("hits:home") == 0
    done = topic.counted()
    assert (done.messages, done.counters, done.repeats) == (1, 2, 0)
    assert (landed("hits:about"), landed()) == (1, 7)
    assert not CounterIncident.objects.exists()


def test_messages_of_others_are_decoded(topic: Topic) -> None:
    topic.add("a")
    publish(5)
    topic.add("a", part=1)
    assert topic.counted().messages == 3
    assert_counts({"a": 2, "all": 2, "hits:home": 5})


def test_a_topic_of_buffers_needs_no_function(topic: Topic) -> None:
    with override_settings(COUNTERS_STREAMS={"clicks": topic.declared(DECODE=None)}):
        publish(5)
        topic.add("a")
        topic.write(None, headers={PUBLISHED: b""})
        assert topic.counted().poison == 2
    assert landed() == 5
    told = sorted(str(incident.detail) for incident in CounterIncident.objects.all())
    assert "the stream has no DECODE" in "".join(told)


@pytest.mark.usefixtures("soon")
def test_a_lost_answer_is_no_second_count(topic: Topic) -> None:
    publish(7)
    topic.lose_answer()
    with pytest.raises(OutcomeUnknown, match=topic.name):
        publish(7)
    # Nobody knows whether it is there, so it is still ours.
    assert Counter.objects.value("hits:home") == 7
    Counter.objects.increment("hits:home", 7)
    buffers.flush()
    assert numbers(topic) == [1, 2, 2, 3]
    done = topic.counted()
    assert (done.messages, done.repeats) == (4, 1)
    assert landed() == Counter.objects.value("hits:home") == 21
    assert not CounterIncident.objects.exists()


@pytest.mark.usefixtures("soon")
def test_a_lost_answer_of_what_is_counted_by_now(topic: Topic) -> None:
    publish(1)
    topic.lose_answer()
    with pytest.raises(OutcomeUnknown):
        publish(7)
    assert topic.counted().messages == 2
    # It is in the total, so it is not added once more.
    assert landed() == Counter.objects.value("hits:home") == 8
    buffers.flush()
    done = topic.counted()
    assert landed() == Counter.objects.value("hits:home") == 8
    assert (done.messages, done.repeats) == (1, 1)


@pytest.mark.usefixtures("soon")
def test_while_the_broker_is_away_all_is_kept(topic: Topic) -> None:
    with topic.away(), pytest.raises(CounterUnavailable, match=topic.name):
        publish()
    publish()
    with topic.away():
        for error in (OutcomeUnknown, CounterUnavailable):
            with pytest.raises(error, match=topic.name):
                publish()
        assert Counter.objects.value("hits:home") == 2
    publish()
    assert numbers(topic) == [1, 2, 3, 4]
    assert topic.counted().messages == 4
    assert landed() == Counter.objects.value("hits:home") == 5
    assert not CounterIncident.objects.exists()


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"LOCATION": "127.0.0.1:1"}, "Connection refused"),
        ({"OPTIONS": {"security.protocol": "ssl"}}, "SSL_HANDSHAKE"),
    ],
)
def test_it_says_why_nobody_answers(topic: Topic, wrong: dict[str, Any], why: str) -> None:
    with (
        override_settings(COUNTERS_STREAMS={"clicks": topic.declared(**wrong)}),
        pytest.raises(CounterUnavailable, match=why),
    ):
        publish()


def test_without_a_topic_all_is_kept(topic: Topic) -> None:
    topic.delete()
    with pytest.raises(CounterUnavailable, match=topic.name):
        publish()
    topic.make()
    publish()
    assert numbers(topic) == [1, 2]
    topic.counted()
    assert landed() == 2


def test_pages_of_a_buffer_come_in_their_order(topic: Topic) -> None:
    many = {f"hits:{number}": number + 1 for number in range(1_700)}
    for _ in range(2):
        Counter.objects.increment_many(many)
        buffers.flush()
    assert numbers(topic) == list(range(1, 9))
    assert len(parts(topic)) == 1
    assert topic.counted().messages == 8
    assert Counter.objects.values_of(many) == {key: 2 * by for key, by in many.items()}
    assert reached() == ["8"]
    assert not CounterIncident.objects.exists()


def test_histories_are_in_all_partitions(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        monkeypatch.setattr(publishing, "mint", lambda at, by=number: beside(at, by))
        present.begin_in_child()
        publish()
    assert [part for part, _ in topic.published()] == [0, 0, 1, 1]
    topic.counted()
    assert landed() == 4


def beside(at: Any, number: int) -> UUID:
    """A UUIDv7 that says which partition it is in, of two and of three: a multiple of six more."""
    made = mint(at)
    return UUID(int=made.int - made.int % 6 + number)


@pytest.mark.usefixtures("soon")
def test_a_history_stays_in_its_partition(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the topic gets more of them, which changes where new histories are."""
    monkeypatch.setattr(publishing, "mint", lambda at: beside(at, 3))
    publish()
    assert parts(topic) == {1}
    topic.lose_answer()
    with pytest.raises(OutcomeUnknown):
        publish()
    topic.delete()
    topic.partitions = 3
    topic.make()
    publish()
    assert [(part, one["number"]) for part, one in topic.published()] == [(1, 2), (1, 3)]
    present.begin_in_child()
    publish()
    assert parts(topic) == {0, 1}


@pytest.mark.usefixtures("soon")
def test_a_partition_that_is_gone_is_another_one(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "mint", lambda at: beside(at, 3))
    publish()
    topic.delete()
    topic.partitions = 1
    topic.make()
    with pytest.raises((OutcomeUnknown, CounterUnavailable)):
        publish()
    publish()
    assert [(part, one["number"]) for part, one in topic.published()] == [(0, 2), (0, 3)]


def test_periods_and_tags_are_those_of_the_increment(topic: Topic) -> None:
    for country in ("de", "de", "fr"):
        Counter.objects.increment("seen:a", tags={"country": country})
    Counter.objects.increment("seen:a", 5, at=clock.utc() - timedelta(days=3))
    buffers.flush()
    assert topic.counted().messages == 1
    cells = CounterCell.objects.filter(key="seen:a")
    assert sorted((cell.tags, cell.value) for cell in cells) == [("", 5), ("de", 2), ("fr", 1)]


@pytest.mark.rare
def test_a_child_has_a_producer_and_a_history_of_its_own(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[object]] = []

    class Watched(outlet._OfOneProcess):
        def __init__(self, topic: Any) -> None:
            super().__init__(topic)
            made.append(weakref.ref(self))

    monkeypatch.setattr(outlet, "_OfOneProcess", Watched)
    publish(1)
    Counter.objects.increment("hits:home", 100)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            publish(10)
            publish(10)
            # That of the parent is left alone.
            os._exit(0 if len(made) == 2 and made[0]() else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    publish(1000)
    assert sorted(numbers(topic)) == [1, 1, 2, 2]
    topic.counted()
    assert landed() == 1121
    assert not CounterIncident.objects.exists()


def test_a_consumer_takes_about_a_megabyte_at_once(topic: Topic) -> None:
    topic.write(*(b'{"key": "a", "x": "%s"}' % (b"x" * 20_000) for _ in range(180)))
    with topic.consumer() as consumer:
        taken: list[int] = []
        while sum(taken) < 180:
            taken.append(until(consumer, lambda done: done.messages).messages)
    assert max(taken) <= 100
    assert landed("all") == 180


# With the last two nobody would be told that a message is there, and all could be declared.
@pytest.mark.parametrize(
    "name",
    [
        "acks",
        "enable.idempotence",
        "delivery.timeout.ms",
        "delivery.report.only.error",
        "default.topic.config",
    ],
)
def test_what_the_promise_depends_on_is_not_declared(topic: Topic, name: str) -> None:
    from django_counters.checks import check_setting
    from django_counters.contrib.streams.checks import check_streams

    with override_settings(COUNTERS={"hits": {"BUFFER": {"to": "clicks"}}}):
        assert check_setting() == check_streams() == []
    wrong = topic.declared(OPTIONS={name: 1})
    with override_settings(COUNTERS_STREAMS={"clicks": wrong}):
        (error,) = check_streams()
    assert (error.id, f"{name!r} can't be set" in error.msg) == ("counters.E039", True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"no.such": 1}, r"no\.such"), ({"retries": 0}, "enable.idempotence")],
)
def test_a_setting_that_librdkafka_refuses(
    topic: Topic, options: dict[str, int], problem: str
) -> None:
    with (
        override_settings(COUNTERS_STREAMS={"clicks": topic.declared(OPTIONS=options)}),
        pytest.raises(InvalidConfiguration, match=problem),
    ):
        publish()
