"""Messages of a stream, counted page by page, beside one increment for each of them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from benchmarks.cases.cached import client
from benchmarks.cases.flush import keys_of, landed
from benchmarks.harness import Pair, Sample, Work, adds_up, expect
from django_counters.contrib.streams.declared import Stream
from django_counters.contrib.streams.redis_consumer import RedisConsumer
from django_counters.models import Counter

MESSAGES = 10_000  # of one slice
KEYS = 100
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


CASES: Mapping[str, Work] = {
    "stream-redis": Work(beside_increments, slices=2),
}
