"""Messages of a topic of Kafka, counted page by page, beside one increment for each of them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial

from confluent_kafka import Producer

from benchmarks.cases.flush import keys_of, landed
from benchmarks.cases.streams import KEYS, alone
from benchmarks.harness import Pair, Sample, Work, adds_up, expect
from django_counters.contrib.streams.declared import Stream
from django_counters.contrib.streams.kafka_consumer import KafkaConsumer
from django_counters.errors import CounterUnavailable
from example_project.broker import Broker

MESSAGES = 50_000  # of one slice
LESS = 10_000  # where time is short
PATIENCE = 60
PARTITIONS = 4
_numbers = itertools.count()


class Topic:
    """A topic in the mock broker of librdkafka, in a process of its own, and its consumer."""

    def __init__(self) -> None:
        self._name = f"benchmarks-{os.getpid()}-{next(_numbers)}"
        self._broker = Broker()
        self._broker.tell("create", self._name, PARTITIONS, 1)
        address = self._broker.address
        self._producer = Producer({"bootstrap.servers": address, "log_level": 0})
        own = {"TOPIC": self._name, "GROUP": None, "OPTIONS": None}
        decode = "benchmarks.decoding.topic_clicks"
        stream = Stream(self._name, address, (), decode, 5000, "kafka", own)
        self._fails = False
        self._consumer = KafkaConsumer(stream, "default", step=self._step)
        while not self._consumer.is_at_end:
            self._consumer.turn()

    def add(self, values: Sequence[bytes], number: int) -> None:
        """Add messages, and wait until they are there."""
        for at in range(number):
            value = values[at % len(values)]
            self._producer.produce(self._name, value, partition=at % PARTITIONS)
            self._producer.poll(0)
        expect("messages that are not there", self._producer.flush(PATIENCE), 0)

    def consumed(self, number: int) -> Sample:
        """Fetch, read and count them. All of that is timed."""
        self._forget_what_is_fetched()
        started = time.perf_counter()
        done = 0
        while done < number:
            done += self._consumer.turn().messages
        seconds = time.perf_counter() - started
        expect("messages that were counted", done, number)
        return Sample(done, seconds)

    def close(self) -> None:
        """End the consumer and the broker."""
        self._consumer.close()
        self._broker.end()

    def _forget_what_is_fetched(self) -> None:
        """Break a page off. Else librdkafka would have fetched all before the time begins."""
        self._fails = True
        with suppress(CounterUnavailable):
            while True:
                self._consumer.turn()
        self._fails = False

    def _step(self, name: str) -> None:
        if self._fails and name == "land":
            raise CounterUnavailable(using="default", reason="all is to be fetched again")


@contextmanager
def beside_increments(messages: int) -> Iterator[Pair]:
    """The messages are there already: what is timed is to fetch, to read and to count them."""
    keys, bare = keys_of("streamed", KEYS, "clicked"), keys_of("alone", KEYS, "clicked")
    values = [key.encode() for key in keys]

    with closing(Topic()) as topic:

        def consumed() -> Sample:
            topic.add(values, messages)
            return topic.consumed(messages)

        yield Pair(
            consumed, partial(alone, bare), adds_up(lambda: landed(keys), lambda: landed(bare))
        )


CASES: Mapping[str, Work] = {
    "stream-kafka": Work(
        partial(beside_increments, MESSAGES), slices=2, less=partial(beside_increments, LESS)
    ),
}
