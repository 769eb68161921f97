"""What is between publishers and a stream: a bad network, or a broker that answers too late."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import redis

from django_counters.contrib.streams.declared import Stream
from django_counters.contrib.streams.redis import PUBLISHED
from tests.faults import lossy
from tests.streams import test_redis_exactly_once as of_redis
from tests.streams.chaos import Make


class Road(NamedTuple):
    """One backend.

    Attributes:
        declared: the stream, as publishers have it.
        stream: the same as consumers have it, without what is bad.
        make: makes a consumer.
        steps: those of its steps that it may die before.
        ends: the position of all that is in each part, where anything is.
        published: what publishers have written.
        trouble: called again and again: makes some.
    """

    declared: dict[str, Any]
    stream: Stream
    make: Make
    steps: list[str]
    ends: Callable[[], dict[str, str]]
    published: Callable[[], list[str]]
    trouble: Callable[[], object]


@contextmanager
def to_redis() -> Iterator[Road]:
    """Two streams, and a network that loses answers."""
    url, parts = os.environ["REDIS_URL"], [f"chaos-{secrets.token_hex(6)}-{n}" for n in range(2)]
    with (
        redis.Redis.from_url(url, decode_responses=True) as found,
        lossy.lossy(url, random.Random(4711)) as network,
    ):
        client: Any = found

        def ends() -> dict[str, str]:
            last = {part: client.xrevrange(part, count=1) for part in parts}
            return {part: end[0][0] for part, end in last.items() if end}

        def published() -> list[str]:
            return [one[PUBLISHED] for part in parts for _, one in client.xrange(part)]

        declared = {"BACKEND": "redis", "LOCATION": network.url, "STREAM": parts}
        stream = Stream("chaos", url, tuple(parts), None, 20)
        make = partial(of_redis.consumer, stream)
        yield Road(declared, stream, make, of_redis.STEPS, ends, published, lambda: None)
        client.delete(*parts)


@contextmanager
def to_kafka() -> Iterator[Road]:
    """A topic, and a broker that now and then takes a message, and answers too late."""
    from example_project.broker import Broker
    from tests.streams import test_kafka_exactly_once as of_kafka
    from tests.streams.topics import SESSION, Topic

    topic, due = Topic(Broker(), of_kafka.PARTITIONS), [0.0]
    options = {**SESSION, **of_kafka.IMPATIENT}
    declared = topic.declared(DECODE=None, OPTIONS=options)
    own = {"TOPIC": topic.name, "GROUP": None, "OPTIONS": options}
    stream = Stream("chaos", topic.broker.address, (), None, 20, "kafka", own)

    def trouble() -> None:
        """Lose an answer now and then, and not faster than one publisher goes on."""
        if time.monotonic() >= due[0]:
            due[0] = time.monotonic() + 3
            topic.lose_answer()

    def published() -> list[str]:
        return [(one.value() or b"").decode() for one in topic.read()]

    make, steps = partial(of_kafka.consumer, stream), ["land", "committed", "poll", "commit"]
    try:
        yield Road(declared, stream, make, steps, topic.ends, published, trouble)
    finally:
        topic.broker.end()


ROADS = {"redis": to_redis, "kafka": to_kafka}
