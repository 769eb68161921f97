"""Each message of a topic is counted exactly once, while consumers die and come back too late."""

from __future__ import annotations

from collections import Counter as Numbers
from collections.abc import Callable
from functools import partial
from signal import SIGSTOP
from typing import Any

import pytest

from django_counters.contrib.streams.declared import Stream
from django_counters.contrib.streams.kafka_consumer import KafkaConsumer
from django_counters.models import Counter, CounterIncident
from django_counters.registry import registry
from tests.streams.chaos import Fate, fates, play

pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.many_writers]
PARTITIONS = 4
EACH = 40
# A group whose leader dies between two requests answers nobody: the members have to ask again.
IMPATIENT = {"max.poll.interval.ms": 4000, "socket.timeout.ms": 4000}
# Seconds after which the server ends the transaction of one who stands still.
LEASE = 0.3


def consumer(stream: Stream, step: Callable[[str], None]) -> KafkaConsumer:
    return KafkaConsumer(stream, "default", lease=LEASE, step=step)


def plan(kills: int, stops: int) -> list[Fate]:
    """Deaths at each step, and zombies between poll and land: there they hold a page.

    In the second page: whoever stands still is overtaken by the first one of somebody else.
    """
    every = fates(["poll", "land", "commit", "committed"], kills, stops)
    zombies = [one._replace(step="land") if one.signal == SIGSTOP else one for one in every]
    return [one._replace(page=2) for one in zombies]


@pytest.mark.parametrize(
    ("messages", "kills", "stops"),
    [(2_000, 3, 2), pytest.param(30_000, 50, 40, marks=pytest.mark.slow)],
)
def test_each_message_exactly_once(broker: Any, messages: int, kills: int, stops: int) -> None:
    from tests.streams.topics import SESSION, Topic

    topic = Topic(broker, PARTITIONS)
    decode = "tests.streams.decoding.topic_one_by_one"
    own = {"TOPIC": topic.name, "GROUP": None, "OPTIONS": {**SESSION, **IMPATIENT}}
    stream = Stream("chaos", broker.address, (), decode, 50, "kafka", own)
    sent: Numbers[str] = Numbers()

    def feed(share: float) -> None:
        # Some more, where all is counted and somebody waits for the page of his fate.
        more = EACH if done() else 0
        wanted = min(messages, max(int(messages * share), sent.total() + more))
        for number in range(sent.total(), wanted):
            part = number % PARTITIONS
            topic.send(f"m:{number}".encode(), part=part)
            sent[str(part)] += 1
        topic.flush()

    def positions() -> dict[str, int]:
        known = registry.positions("default").of(stream.source)
        return {part: int(at.position) for part, at in known.items()}

    def done() -> bool:
        return positions() == sent

    def overtaken(_: int) -> Callable[[], bool]:
        """Others have counted something of each partition that it may hold messages of."""
        before = positions()
        behind = [part for part, end in sent.items() if before.get(part, 0) < end]

        def is_over() -> bool:
            now = positions()
            return all(now.get(part, 0) > before.get(part, 0) for part in behind)

        return is_over

    make = partial(consumer, stream)
    scene = play(make, plan(kills, stops), feed, done, overtaken, 60 + 8 * (kills + stops))
    assert (scene.killed, scene.stopped) == (kills, stops)
    assert scene.late == stops, "who stood still has not noticed it"
    values = Counter.objects.values_list("value", flat=True)
    assert (len(values), set(values)) == (messages, {1})
    assert not CounterIncident.objects.exists()
