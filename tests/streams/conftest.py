"""Streams in the Redis of the tests, each with a name of its own."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from django.test import override_settings

from django_counters.contrib.buffers.process import buffers as present
from django_counters.contrib.streams.declared import streams
from django_counters.contrib.streams.redis_consumer import RedisConsumer
from django_counters.testing import override_counters
from tests.buffers.buffering import LATER


class Clicks:
    """The stream ``clicks`` of the settings: two parts, and what somebody else does to them."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client
        self.parts = [f"clicks-{secrets.token_hex(6)}-{number}" for number in range(2)]

    def add(self, *keys: str, part: int = 0, **more: str) -> list[str]:
        """Add a message for each key; their ids."""
        pipe = self.client.pipeline(transaction=False)
        for key in keys:
            pipe.xadd(self.parts[part], {"key": key, **more})
        return [str(one) for one in pipe.execute()]

    def declared(self, **more: object) -> dict[str, object]:
        url, decode = os.environ["REDIS_URL"], "tests.streams.decoding.clicks"
        given = {"BACKEND": "redis", "LOCATION": url, "STREAM": self.parts, "DECODE": decode}
        return {**given, **more}

    def consumer(self, **options: Any) -> RedisConsumer:
        return RedisConsumer(streams()["clicks"], "default", **options)


@pytest.fixture
def clicks() -> Iterator[Clicks]:
    with redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        made = Clicks(client)
        with override_settings(COUNTERS_STREAMS={"clicks": made.declared()}):
            yield made
        client.delete(*made.parts)


@pytest.fixture(params=["exact"])
def inner(request: pytest.FixtureRequest) -> str:
    """The strategy behind a buffer that publishes."""
    return str(request.param)


@pytest.fixture
def publishing(clicks: Clicks, inner: str) -> Iterator[None]:
    """Namespaces whose buffers publish to the stream; nothing is published by itself."""
    with buffers_that_publish(inner):
        yield


@pytest.fixture
def publishing_to_kafka(topic: Any, inner: str) -> Iterator[None]:
    """The same, where the stream is a topic."""
    with buffers_that_publish(inner):
        yield


@contextmanager
def buffers_that_publish(inner: str) -> Iterator[None]:
    """A block in which those of some namespaces do."""
    to = {**LATER, "to": "clicks"}
    declared = {"STRATEGY": inner, "BUFFER": to}
    full = {**declared, "BUFFER": {**to, "most": 1}}
    seen = {**declared, "PER": ["day"], "TAGS": {"country": 10}}
    many = {**seen, "TAGS": {"number": 100}}
    present.clear()
    with override_counters(hits=declared, seen=seen, many=many, full=full):
        yield
    present.clear()


@pytest.fixture(scope="session")
def broker() -> Iterator[Any]:
    """A Kafka for all tests of this process; each has topics of its own."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")
    from example_project.broker import Broker

    made = Broker()
    yield made
    made.end()


@pytest.fixture
def topic(broker: Any) -> Iterator[Any]:
    """The stream ``clicks`` of the settings, as a topic with two partitions."""
    from tests.streams.topics import Topic

    made = Topic(broker)
    with override_settings(COUNTERS_STREAMS={"clicks": made.declared()}):
        yield made
