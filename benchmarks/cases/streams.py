"""Messages of a stream, counted page by page, beside one increment for each of them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial

from django.test import override_settings

from benchmarks.cases.cached import client
from benchmarks.cases.flush import keys_of, landed
from benchmarks.harness import Pair, Sample, Work, adds_up, expect
from django_counters.intake.backend import Consumer
from django_counters.intake.backends import BACKENDS
from django_counters.intake.redis_stream import RedisConsumer
from django_counters.models import Counter
from django_counters.streams import Stream, streams
from django_counters.testing import override_counters
from django_counters.write.publishing import Publisher

MESSAGES = 10_000  # of one slice
KEYS = 100
SUMS, TURNS = 5_000, 10  # published at once, and how often in one slice
MESSAGES_OF_SUMS = TURNS * -(-SUMS // Publisher.size)  # of one slice
ALONE = 500  # increments of one slice
_numbers = itertools.count()


def alone(keys: Sequence[str]) -> Sample:
    """Increment counters one by one, in turn."""
    started = time.perf_counter()
    for number in range(ALONE):
        Counter.objects.increment(keys[number % KEYS])
    return Sample(ALONE, time.perf_counter() - started)


@contextmanager
def beside_increments() -> Iterator[Pair]:
    """The messages are there already: what is timed is to read and to count them."""
    keys, bare = keys_of("streamed", KEYS, "clicked"), keys_of("alone", KEYS, "clicked")
    name = f"benchmarks-{os.getpid()}-{next(_numbers)}"
    decode = "benchmarks.decoding.clicks"
    stream = Stream(name, os.environ["REDIS_URL"], (name,), decode, 5000)
    consumer = RedisConsumer(stream, "default")
    with client() as server:

        def consumed() -> Sample:
            pipeline = server.pipeline(transaction=False)
            for number in range(MESSAGES):
                pipeline.xadd(name, {"key": keys[number % KEYS]})
            pipeline.execute()
            started = time.perf_counter()
            done = 0
            while more := consumer.turn().messages:
                done += more
            seconds = time.perf_counter() - started
            expect("messages that were counted", done, MESSAGES)
            return Sample(done, seconds)

        yield Pair(
            consumed, partial(alone, bare), adds_up(lambda: landed(keys), lambda: landed(bare))
        )
        server.delete(name)


@contextmanager
def published() -> Iterator[Pair]:
    """Publish to a Redis stream."""
    name = f"benchmarks-{os.getpid()}-{next(_numbers)}"
    declared = {"BACKEND": "redis", "LOCATION": os.environ["REDIS_URL"], "STREAM": name}
    with client() as server, published_to(name, declared) as pair:
        yield pair
        server.delete(name)


@contextmanager
def published_to(name: str, declared: Mapping[str, object]) -> Iterator[Pair]:
    """A buffer publishes the sums of 5,000 counters, ten times; a consumer counts them."""
    keys, bare = keys_of("published", SUMS, "sum"), keys_of("apart", KEYS, "clicked")
    space = keys[0].partition(":")[0]
    buffer = {space: {"BUFFER": {"seconds": 3600, "to": name}}}
    with (
        override_settings(COUNTERS_STREAMS={name: declared}),
        override_counters(**buffer),
        closing(_consumer(name)) as consumer,
    ):
        handles = [Counter.objects.handle(key) for key in keys]

        def merged() -> Sample:
            done, seconds = 0, 0.0
            for _ in range(TURNS):
                for handle in handles:
                    handle.increment()
                started = time.perf_counter()
                done += Counter.objects.flush_buffers()
                seconds += time.perf_counter() - started
            started, left = time.perf_counter(), MESSAGES_OF_SUMS
            while left > 0:
                left -= consumer.turn().messages
            expect("messages that were counted too often", -left, 0)
            return Sample(done, seconds + time.perf_counter() - started)

        yield Pair(
            merged, partial(alone, bare), adds_up(lambda: landed(keys), lambda: landed(bare))
        )


def _consumer(name: str) -> Consumer:
    """A consumer that has its parts: a group shares them out first."""
    stream = streams()[name]
    consumer = BACKENDS[stream.backend].consumer(stream, "default")
    while not consumer.is_at_end:
        consumer.turn()
    return consumer


CASES: Mapping[str, Work] = {
    "stream-redis": Work(beside_increments, slices=2),
    "stream-published": Work(published, slices=2),
}
