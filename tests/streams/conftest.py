"""Streams in the Redis of the tests, each with a name of its own."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.test import override_settings

from django_counters.intake.redis_stream import RedisConsumer
from django_counters.intake.streams import streams


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
