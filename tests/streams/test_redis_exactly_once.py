"""Each message is counted exactly once, while consumers die and come back too late."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from functools import partial

import pytest
import redis

from django_counters.contrib.streams.declared import Stream
from django_counters.contrib.streams.redis_consumer import RedisConsumer
from django_counters.models import Counter, CounterIncident
from django_counters.registry import registry
from tests.streams.chaos import fates, play, without_session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.many_writers]
STEPS = ["read", "land", "commit", "committed"]
# Seconds after which the server ends the transaction of one who stands still.
LEASE = 0.3


def consumer(stream: Stream, step: Callable[[str], None]) -> RedisConsumer:
    return RedisConsumer(stream, "default", lease=LEASE, step=step)


@pytest.mark.parametrize(
    ("messages", "kills", "stops"),
    [(3_000, 8, 2), pytest.param(30_000, 40, 16, marks=pytest.mark.slow)],
)
def test_each_message_exactly_once(messages: int, kills: int, stops: int) -> None:
    parts = tuple(f"chaos-{secrets.token_hex(6)}-{number}" for number in range(4))
    decode = "tests.streams.decoding.one_by_one"
    stream = Stream("chaos", os.environ["REDIS_URL"], parts, decode, 50)
    with redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        last: dict[str, str] = {}
        unsent = list(range(messages))

        def feed(share: float) -> None:
            while unsent and messages - len(unsent) < int(messages * share):
                number = unsent.pop()
                part = parts[number % len(parts)]
                last[part] = str(client.xadd(part, {"key": f"m:{number}"}))

        def done() -> bool:
            known = registry.positions("default").of(stream.source)
            return {part: at for part, (at, _) in known.items()} == last

        make, plan = partial(consumer, stream), fates(STEPS, kills, stops)
        scene = play(make, plan, feed, done, without_session)
        client.delete(*parts)
    assert (scene.killed, scene.stopped) == (kills, stops)
    assert scene.late == stops, "who stood still has not noticed it"
    values = Counter.objects.values_list("value", flat=True)
    assert (len(values), set(values)) == (messages, {1})
    assert not CounterIncident.objects.exists()
