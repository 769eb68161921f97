"""A topic: its identity, its partitions, and their first and next offsets."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    admin,
)

from django_counters.contrib.streams.kafka import OURS, KafkaMessage, Topic
from django_counters.errors import CounterUnavailable, InvalidConfiguration

# The timeout of a request in seconds.
PATIENCE = 5.0
logger = logging.getLogger("django_counters.kafka")


class OffsetRange(NamedTuple):
    """The first offset of a partition, and the next one at its end."""

    low: int
    high: int


class TopicState(NamedTuple):
    """The state of a topic. ``id``: a new one if it was made again; empty if unknown."""

    id: str
    parts: tuple[int, ...]


class KafkaTopic:
    """Queries the brokers about one topic. Connects on first use.

    Raises:
        InvalidConfiguration: librdkafka refuses one of the settings.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._heard = Heard()
        with refused():
            settings = {**topic.connecting, "error_cb": self._heard}
            self._admin = admin.AdminClient(settings, logger=logger)

    def known(self) -> TopicState:
        """Return its present state.

        Raises:
            CounterUnavailable: no broker answers, or the topic doesn't exist or is hidden from the
                user.
        """
        names = TopicCollection([self._topic.name])
        futures = self._admin.describe_topics(names, request_timeout=PATIENCE)
        state = self._answered(futures[self._topic.name])
        return TopicState(
            _text(state.topic_id), tuple(sorted(part.id for part in state.partitions))
        )

    def bounds(self, parts: Collection[int]) -> dict[int, OffsetRange]:
        """Return the bounds of partitions, up to their last committed transactions.

        Raises:
            CounterUnavailable: no broker answers, or one of the partitions is missing.
        """
        # This class and its functions have no types.
        ends: Any = vars(admin)["OffsetSpec"]
        low, high = (self._offsets(parts, end) for end in (ends.earliest(), ends.latest()))
        return {part: OffsetRange(low[part], high[part]) for part in parts}

    def next_time(self, part: int, offset: int) -> datetime | None:
        """Return when the first message from an offset on was made; None if none comes in time."""
        settings = {**self._topic.connecting, **OURS, "group.id": "django-counters-looks"}
        with refused():
            reader = Consumer(settings, logger=logger)
        try:
            reader.assign([TopicPartition(self._topic.name, part, offset)])
            first = reader.poll(PATIENCE)
            return None if first is None or first.error() else KafkaMessage(first).at
        finally:
            reader.close()

    def _offsets(self, parts: Collection[int], end: Any) -> dict[int, int]:
        wanted = {TopicPartition(self._topic.name, part): end for part in parts}
        if not wanted:
            return {}
        committed = IsolationLevel.READ_COMMITTED
        futures = self._admin.list_offsets(
            wanted, request_timeout=PATIENCE, isolation_level=committed
        )
        return {part.partition: self._answered(one).offset for part, one in futures.items()}

    def _answered(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            why = self._heard.reason(self._admin, error.args[0])
            raise unavailable(self._topic, why) from error


class KafkaClient(Protocol):
    """A client of librdkafka."""

    def poll(self, timeout: float) -> Any:
        """Call the pending callbacks."""


class Heard:
    """The last message of a client about its connections: why no broker answers.

    It has no reference to its client. A child that collects a cycle of both would end the client.
    """

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, error: KafkaError) -> None:
        """Keep the message."""
        self._last = error.str()

    def reason(self, client: KafkaClient, error: KafkaError) -> str:
        """Return the text of an error, with its cause if no broker has named it."""
        client.poll(0)
        # The codes of librdkafka itself are below zero.
        return f"{error.str()} ({self._last})" if self._last and error.code() < 0 else error.str()


def unavailable(topic: Topic, reason: str) -> CounterUnavailable:
    """Return the error of brokers that don't answer, or answer an error."""
    return CounterUnavailable(using=f"kafka {topic.location}", reason=f"{topic.name}: {reason}")


@contextmanager
def refused() -> Iterator[None]:
    """Raise `InvalidConfiguration` for a setting that librdkafka refuses."""
    try:
        yield
    except KafkaException as error:
        problem = f"OPTIONS: {error.args[0].str()}"
        raise InvalidConfiguration(problem=problem) from error


def _text(identity: Any) -> str:
    """Return the id of a topic; empty for brokers before 2.8, which have none and return zero."""
    bits = (int(identity.get_most_significant_bits()), int(identity.get_least_significant_bits()))
    high, low = (part % 2**64 for part in bits)
    return UUID(int=high << 64 | low).hex if high or low else ""
