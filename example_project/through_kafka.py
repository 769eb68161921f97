"""The stream of a replay in Kafka, whose broker lives as long as the replay."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from functools import cached_property

from confluent_kafka import Consumer, Producer, TopicPartition

from django_counters.contrib.streams import Stream, streams
from example_project.broker import PARTITIONS

STREAM = "replay-kafka"
PATIENCE = 30.0


class NotThere(Exception):
    """The broker has not taken all messages."""


class ThroughKafka:
    """What `streamed` does with it."""

    name = STREAM

    def begin(self) -> None:
        """Forget how far the topic of an earlier broker was: it is no more."""
        from django_counters.models import CounterPosition

        CounterPosition.objects.filter(source=self._stream.source).delete()

    def send(self, messages: Iterable[Mapping[str, str]]) -> None:
        """Publish messages. Those of one page stay in order."""
        producer, failed = self._producer, list[object]()
        for one in messages:
            at = zlib.crc32(one["page"].encode()) % PARTITIONS
            producer.produce(
                self._topic,
                json.dumps(one).encode(),
                partition=at,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        if producer.flush(PATIENCE) or failed:
            raise NotThere(*failed[:1])

    def ends(self) -> dict[str, str]:
        """The offset that comes next, of partitions that have something."""
        reader = Consumer({**self._where, "group.id": "replay-looks"})
        places = [TopicPartition(self._topic, part) for part in range(PARTITIONS)]
        ends = [reader.get_watermark_offsets(place, PATIENCE)[1] for place in places]
        reader.close()
        return {str(part): str(end) for part, end in enumerate(ends) if end}

    def waiting(self, positions: Mapping[str, str]) -> int:
        """How many messages come after positions."""
        return sum(int(end) - int(positions.get(part, 0)) for part, end in self.ends().items())

    def trim(self, ends: Mapping[str, str]) -> None:
        """Keep all: it ends with the broker."""

    @cached_property
    def _producer(self) -> Producer:
        # One of a process: each needs half a second before its first message is there.
        return Producer({**self._where, "enable.idempotence": True})

    @property
    def _stream(self) -> Stream:
        return streams()[self.name]

    @property
    def _topic(self) -> str:
        return str(self._stream.own["TOPIC"])

    @property
    def _where(self) -> dict[str, str | int | bool]:
        return {"bootstrap.servers": self._stream.location, "log_level": 2}
