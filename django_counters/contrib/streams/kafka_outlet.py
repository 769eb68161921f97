"""Publishes to a topic. When a call returns, its message is acknowledged."""

from __future__ import annotations

import os
from ctypes import py_object, pythonapi
from uuid import UUID

from confluent_kafka import KafkaError, KafkaException, Producer

from django_counters.contrib.streams.kafka import PUBLISHED, PUBLISHING, Topic
from django_counters.contrib.streams.kafka_topic import Heard, logger, refused, unavailable
from django_counters.errors import OutcomeUnknown

# Seconds to wait for the brokers' acknowledgement of a message.
PATIENCE = 5.0
# Seconds that signal handlers wait at most.
_MOMENT = 0.1
# The declared settings go first. Logs of each attempt would wait for the next call.
_USUAL = {"linger.ms": 0, "compression.type": "lz4", "message.max.bytes": 10**7, "log_level": 2}


class KafkaOutlet:
    """Appends to the partitions of one topic. Connects on first use.

    One thread at a time may use it. A forked child makes its own.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._history: UUID | None = None
        self._part = 0
        # A producer that has failed isn't used again.
        self._producer: _OfOneProcess | None = None

    def append(self, history: UUID, text: str) -> None:
        """Append a buffer's message; all in-sync replicas have it then.

        Raises:
            OutcomeUnknown: the message may be in the topic, now or later.
            CounterUnavailable: the message isn't in the topic, and never will be.
            InvalidConfiguration: librdkafka refuses one of the settings.
        """
        kept, self._producer = self._producer, None
        producer = kept or _OfOneProcess(self._topic)
        if kept is None or history != self._history:
            self._find(history, producer)
        error = self._sent(producer, text)
        if error is not None:
            # Even if the last attempt of librdkafka failed, an earlier one may have arrived.
            where = f"kafka {self._topic.location}: {self._topic.name}: {producer.reason(error)}"
            raise OutcomeUnknown(using=where) from KafkaException(error)
        self._producer = producer

    def _find(self, history: UUID, producer: _OfOneProcess) -> None:
        """Find the partition of a history: the same one as long as the topic has it.

        A topic can get more partitions. In a different one a later page could be counted first.
        """
        name = self._topic.name
        try:
            topic = producer.list_topics(name, timeout=PATIENCE).topics[name]
        except KafkaException as error:
            raise unavailable(self._topic, producer.reason(error.args[0])) from error
        if topic.error is not None:
            raise unavailable(self._topic, topic.error.str())
        parts = sorted(topic.partitions)
        if history != self._history or self._part not in parts:
            self._history, self._part = history, parts[history.int % len(parts)]

    def _sent(self, producer: Producer, text: str) -> KafkaError | None:
        """Send a message and wait for its report; return the error, or None."""
        reports: list[KafkaError | None] = []
        try:
            producer.produce(
                self._topic.name,
                value=text.encode(),
                partition=self._part,
                headers={PUBLISHED: b""},
                on_delivery=lambda error, _: reports.append(error),
            )
        except KafkaException as error:
            raise unavailable(self._topic, error.args[0].str()) from error
        except BufferError as error:
            raise unavailable(self._topic, str(error)) from error
        # Each message gets a report, after PATIENCE at the latest.
        while not reports:
            producer.poll(_MOMENT)
        return reports[0]


class _OfOneProcess(Producer):
    """A producer that a forked child doesn't destroy.

    Its destruction would wait for threads that the child doesn't have, and for their locks.
    """

    # At the end of the interpreter, globals may be gone.
    _present = staticmethod(os.getpid)
    _keep = staticmethod(pythonapi.Py_IncRef)
    _itself = py_object

    def __init__(self, topic: Topic) -> None:
        self._pid = os.getpid()
        self._heard = heard = Heard()
        patience = int(PATIENCE * 1000)
        ours = {**PUBLISHING, "message.timeout.ms": patience, "error_cb": heard}
        with refused():
            super().__init__({**_USUAL, **topic.connecting, **ours}, logger=logger)

    def reason(self, error: KafkaError) -> str:
        """Return the reason of an error."""
        return self._heard.reason(self, error)

    def __del__(self) -> None:
        if self._pid != self._present():
            self._keep(self._itself(self))
