"""Topics in a broker of the tests, each with a name of its own."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from django_counters.contrib.streams.consuming import Consumed
from django_counters.contrib.streams.declared import streams
from django_counters.contrib.streams.kafka import PUBLISHED
from django_counters.contrib.streams.kafka_consumer import KafkaConsumer
from example_project.broker import Broker
from tests.streams.published import opened

# Who does not answer for so long is out of the group.
SESSION = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200, "fetch.wait.max.ms": 20}
PATIENCE = 30
# The kind of requests that bring messages.
PRODUCE = 0


class Topic:
    """The stream ``clicks`` of the settings, and what somebody else does to its topic."""

    def __init__(self, broker: Broker, partitions: int = 2) -> None:
        self.broker = broker
        self.name = f"clicks-{secrets.token_hex(6)}"
        self.partitions = partitions
        self._producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
        self.make()

    def make(self) -> None:
        """Make it, also where it was deleted."""
        self.broker.tell("create", self.name, self.partitions, 1)

    def delete(self) -> None:
        """Delete it, with all that is in it."""
        self.broker.tell("delete", self.name)

    def forget(self, until: int, part: int = 0) -> None:
        """Delete what comes before an offset, as a broker does with what is old."""
        self.broker.tell("forget", self.name, part, until)

    def add(self, *keys: str, part: int = 0, **more: str) -> None:
        """Add a message for each key."""
        self.write(*(json.dumps({"key": key, **more}).encode() for key in keys), part=part)

    def write(self, *values: bytes | None, part: int = 0, **more: Any) -> None:
        """Add messages as they are."""
        self.send(*values, part=part, **more)
        self.flush()

    def send(self, *values: bytes | None, part: int = 0, **more: Any) -> None:
        """Add messages as they are; they are there after a flush."""
        for value in values:
            self._producer.produce(self.name, value=value, partition=part, **more)

    def flush(self) -> None:
        """Wait until all is there."""
        assert self._producer.flush(PATIENCE) == 0

    def read(self) -> list[Message]:
        """All that is there, partition by partition."""
        reader = self._made_reader()
        reader.assign([TopicPartition(self.name, part, 0) for part in range(self.partitions)])
        found, left = list[Message](), self.partitions
        while left:
            message = reader.poll(PATIENCE)
            assert message is not None
            if (error := message.error()) is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left -= 1
        reader.close()
        return sorted(found, key=lambda one: (one.partition(), one.offset()))

    def ends(self) -> dict[str, str]:
        """The offset that comes next, of partitions that have messages."""
        places = [TopicPartition(self.name, part) for part in range(self.partitions)]
        ends = [self._reader.get_watermark_offsets(one, PATIENCE)[1] for one in places]
        return {str(part): str(end) for part, end in enumerate(ends) if end}

    @cached_property
    def _reader(self) -> Consumer:
        return self._made_reader()

    def _made_reader(self) -> Consumer:
        where = {"bootstrap.servers": self.broker.address, "group.id": "reads"}
        return Consumer({**where, "enable.partition.eof": True})

    def published(self) -> list[tuple[int, dict[str, Any]]]:
        """What buffers have published, and in which partitions."""
        marked = [one for one in self.read() if (PUBLISHED, b"") in (one.headers() or [])]
        return [(one.partition() or 0, opened((one.value() or b"").decode())) for one in marked]

    def lose_answer(self) -> None:
        """Let the broker take the next message, and answer when nobody waits for that any more."""
        self.broker.tell("late", 1, PRODUCE, 1, 0, 60_000)

    @contextmanager
    def away(self) -> Iterator[None]:
        """A block in which the broker cannot be reached."""
        self.broker.tell("down", 1)
        try:
            yield
        finally:
            self.broker.tell("up", 1)

    def declared(self, **more: object) -> dict[str, object]:
        decode = "tests.streams.decoding.topic_clicks"
        given = {"BACKEND": "kafka", "LOCATION": self.broker.address, "TOPIC": self.name}
        return {**given, "GROUP": self.name, "OPTIONS": SESSION, "DECODE": decode, **more}

    @contextmanager
    def consumer(self, **options: Any) -> Iterator[KafkaConsumer]:
        """A consumer, which leaves its group afterwards."""
        made = KafkaConsumer(streams()["clicks"], "default", **options)
        try:
            yield made
        finally:
            made.close()

    def counted(self, **options: Any) -> Consumed:
        """All that is there, by a consumer of its own."""
        with self.consumer(**options) as consumer:
            return all_of(consumer)


def all_of(consumer: KafkaConsumer) -> Consumed:
    """Turns until nothing is left."""
    whole, deadline = Consumed(), time.monotonic() + PATIENCE
    while True:
        done = consumer.turn()
        whole.join(done)
        if not done.messages and consumer.is_at_end:
            return whole
        assert time.monotonic() < deadline, whole


def until(consumer: KafkaConsumer, what: Any) -> Consumed:
    """Turns until one of them says what is waited for; that one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        done = consumer.turn()
        if what(done):
            return done
        assert time.monotonic() < deadline, done


def positions(known: Mapping[str, Any]) -> dict[str, str]:
    """The positions alone, without their timelines."""
    return {part: at.position for part, at in known.items()}
