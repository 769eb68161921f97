"""A member of a consumer group: the group assigns partitions, positions say where to begin."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from django_counters.contrib.streams.kafka import OURS, SOONER, Topic
from django_counters.contrib.streams.kafka_topic import logger, refused, unavailable

# After so many bytes a page is full: a message of a buffer is as large as hundreds of others.
LARGEST = 1_000_000
_AT_ONCE = 100


@dataclass
class Read:
    """The messages from the brokers.

    Attributes:
        messages: the messages, in order within each partition.
        ended: partitions without further messages now.
        outside: partitions whose next offset is missing.
    """

    messages: list[Message] = field(default_factory=list)
    ended: set[int] = field(default_factory=set)
    outside: set[int] = field(default_factory=set)


class Member:
    """Reads the partitions that the group assigns. Never reads the group's offsets.

    The callbacks only set attributes: a query in one of them could fail, and its exception would
    end the consumer.

    Attributes:
        parts: the assigned partitions; None without an assignment.
        generation: how often the assignment changed.

    Raises:
        InvalidConfiguration: librdkafka refuses one of the settings.
    """

    def __init__(self, topic: Topic, group: str) -> None:
        self.parts: frozenset[int] | None = None
        self.generation = 0
        self._topic = topic
        self._problem = ""
        own = {"group.id": group, "error_cb": self._failed}
        settings = {**SOONER, **topic.connecting, **OURS, **own}
        with refused():
            self._consumer = Consumer(settings, logger=logger)
        self._consumer.subscribe(
            [topic.name], on_assign=self._gets, on_revoke=self._loses, on_lost=self._loses
        )

    def stand(self, offsets: Mapping[int, int], fresh: Collection[int]) -> None:
        """Read on from these offsets; read fresh partitions from their first message.

        Drops messages that were fetched before.
        """
        begins = {**offsets, **dict.fromkeys(fresh, OFFSET_BEGINNING)}
        name = self._topic.name
        self._consumer.assign([TopicPartition(name, part, at) for part, at in begins.items()])

    def read(self, most: int, seconds: float) -> Read:
        """Return up to ``most`` messages, or about a megabyte, within ``seconds``.

        Raises:
            CounterUnavailable: no message came, and the brokers are unavailable or return an error.
        """
        read = Read()
        for message in self._taken(most, seconds):
            error = message.error()
            if error is None:
                read.messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                read.ended.add(message.partition() or 0)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                read.outside.add(message.partition() or 0)
            elif error.code() != KafkaError._MAX_POLL_EXCEEDED:
                # After that one, the group assigns all partitions again.
                self._problem = error.str()
        if self._problem and not read.messages:
            problem, self._problem = self._problem, ""
            raise unavailable(self._topic, problem)
        return read

    def _taken(self, most: int, seconds: float) -> Iterator[Message]:
        size, until = 0, time.monotonic() + seconds
        while most > 0 and size < LARGEST:
            wanted = min(most, _AT_ONCE)
            taken = self._consumer.consume(wanted, max(0.0, until - time.monotonic()))
            yield from taken
            size += sum(map(len, taken))
            most -= wanted
            if len(taken) < wanted:
                # The time is over.
                return

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets to the group, for tools that display lags. Nothing depends on it."""
        next_offsets = [TopicPartition(self._topic.name, part, at) for part, at in offsets.items()]
        try:
            self._consumer.commit(offsets=next_offsets, asynchronous=True)
        except KafkaException as error:
            logger.info("The offsets of %s were not committed: %s", self._topic.name, error)

    def close(self) -> None:
        """Leave the group, so that others get the partitions at once."""
        self._consumer.close()

    def _gets(self, consumer: Consumer, assigned: Sequence[TopicPartition]) -> None:
        self.parts = frozenset(partition.partition for partition in assigned)
        self.generation += 1
        try:
            # Without this call they would be read from the group's offsets.
            consumer.assign([])
        except KafkaException as error:
            self._problem = str(error)

    def _loses(self, consumer: Consumer, revoked: Sequence[TopicPartition]) -> None:  # noqa: ARG002
        self.parts = None
        self.generation += 1

    def _failed(self, error: KafkaError) -> None:
        # librdkafka repairs single connections.
        ends = KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL
        if error.fatal() or error.code() in ends:
            self._problem = error.str()
