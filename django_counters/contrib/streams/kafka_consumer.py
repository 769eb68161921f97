"""Counts the messages of a Kafka topic: the group assigns partitions, the database has positions.

A position is the next offset. A page is one transaction: it adds the changes to the totals and
moves the position of each partition in it, by compare-and-set. The group decides which consumer
tries, and never which messages count. If a consumer was wrongly taken for dead, its compare-and-set
fails: the position has moved. Then it reads the positions again, and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from django.db import DEFAULT_DB_ALIAS, DataError

from django_counters.contrib.streams import consuming
from django_counters.contrib.streams.declared import Stream
from django_counters.contrib.streams.kafka import KafkaMessage, Raw, Topic, needs_kafka, topic_of
from django_counters.contrib.streams.pages import MessagePage, write_lost
from django_counters.errors import CounterUnavailable
from django_counters.landing import Landed, PageOverflow
from django_counters.stores.base import Move, PartitionBusy
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.positions import Moved, Position
from django_counters.tables import CounterIncident

if TYPE_CHECKING:
    from django_counters.contrib.streams.kafka_member import Member
    from django_counters.contrib.streams.kafka_topic import KafkaTopic

# Seconds that a turn waits for a full page.
WAIT = 0.2
# Seconds that the group may be without an answer.
PATIENCE = 30.0
# Seconds after which it looks again at a partition that can't be read.
AGAIN = 10.0


class KafkaConsumer(consuming.PageConsumer):
    """Counts one topic in one database, as a member of its group. See `PageConsumer`.

    Raises:
        InvalidConfiguration: confluent-kafka isn't installed, a setting is refused, or the stream's
            function can't be found.
    """

    #: Far below the time after which librdkafka leaves the group by itself, which is 5 minutes.
    longest_pause = 5.0

    def _connect(self, stream: Stream) -> None:
        self._topic, self._member = _connected(stream, self._using)
        # The position of each partition, and its next offset.
        self._known: dict[int, Position] = {}
        self._next: dict[int, int] = {}
        # The generation of the assignment whose positions were read; None: read them again.
        self._stands: int | None = None
        self._ended: set[int] = set()
        self._stuck: set[int] = set()
        self._since = time.monotonic()

    @property
    def is_at_end(self) -> bool:
        """Return whether the group has assigned partitions, and all their messages are read."""
        parts = self._member.parts
        if parts is None or self._stands is None:
            return False
        return parts <= self._ended | self._stuck

    def close(self) -> None:
        """Leave the group, so that others get the partitions at once."""
        self._member.close()

    def turn(self) -> consuming.Consumed:
        """Count one page of all assigned partitions, in one transaction.

        Raises:
            DecodeFailed: `DECODE` can't work. This page isn't counted.
            CounterUnavailable, OutcomeUnknown: the database or the brokers were lost. You don't
                have to repair anything.
        """
        done = consuming.Consumed()
        try:
            self._take(done)
        except consuming.Again:
            # As after each failure, it reads again from the positions.
            pass
        except (Moved, PartitionBusy):
            # Another process is ahead, or is counting the same.
            self._stands = None
            done.busy += map(str, sorted(self._next))
        return done

    def _take(self, done: consuming.Consumed) -> None:
        if self._stands != self._member.generation:
            self._stand(done)
        # After any error from here on, it reads again from the positions.
        generation, self._stands = self._stands, None
        self._step("poll")
        read = self._member.read(self._portion.size, WAIT)
        if generation != self._member.generation:
            # The assignment has changed, so none of these messages is ours.
            return
        self._ended |= read.ended
        self._count(read.messages, done)
        has_changed = [self._look(part, done) for part in sorted(read.outside)]
        if not any(has_changed) and not self._is_late(read.messages):
            self._stands = generation

    def _stand(self, done: consuming.Consumed) -> None:
        """Read on from the positions, and drop earlier reads."""
        generation, parts = self._member.generation, sorted(self._member.parts or ())
        topic, known = self._topic.known(), self._positions.of(self._source)
        self._ended, self._stuck, self._since = set(), set(), time.monotonic()
        self._known = {
            part: self._begun(part, known.get(str(part), Position()), topic.id, done)
            for part in parts
        }
        self._next = {part: int(at.position or 0) for part, at in self._known.items()}
        if parts:
            fresh = [part for part in parts if not self._known[part].position]
            self._member.stand(self._next, fresh)
        self._stands = generation

    def _is_late(self, messages: Sequence[Raw]) -> bool:
        """Return whether to read the positions again: a partition may be readable now.

        Raises:
            CounterUnavailable: the group hasn't answered for long.
        """
        late = time.monotonic() - self._since
        if self._member.parts is None and late > PATIENCE:
            reason = f"the group has assigned no partitions for {late:.0f} s"
            raise CounterUnavailable(using=self._source, reason=reason)
        return bool(self._stuck) and not messages and late > AGAIN

    def _count(self, messages: Sequence[Raw], done: consuming.Consumed) -> None:
        """Count a page and move the positions, in one transaction."""
        fresh, ends = self._fresh(messages)
        if not fresh:
            return
        try:
            page, landed = self._landed(fresh, ends)
        except (DataError, PageOverflow) as error:
            self._portion.refuse(fresh, error)
        self._has_landed(page, landed, done)
        for part, end in ends.items():
            self._known[part] = self._known[part]._replace(position=str(end))
        self._next.update(ends)
        self._member.commit(ends)

    def _landed(
        self, fresh: Sequence[KafkaMessage], ends: Mapping[int, int]
    ) -> tuple[MessagePage, Landed]:
        """Count messages as a page, in one transaction."""
        page = self._decoded(fresh)
        moves = [self._move(part, str(end)) for part, end in ends.items()]
        self._step("land")
        with self._landing.begun([]):
            self._positions.lease(self._lease)
            landed = page.land(self._landing, self._source, moves)
            self._step("commit")
        return page, landed

    def _fresh(self, messages: Sequence[Raw]) -> tuple[list[KafkaMessage], dict[int, int]]:
        """Return the messages that aren't counted, and the next offsets of their partitions."""
        fresh, ends = list[KafkaMessage](), dict(self._next)
        for raw in messages:
            part, offset = raw.partition(), raw.offset()
            # A message that comes again after a change in the group, or of another partition.
            if part is None or offset is None or part not in ends or offset < ends[part]:
                continue
            ends[part] = offset + 1
            fresh.append(KafkaMessage(raw))
        return fresh, {part: end for part, end in ends.items() if end != self._next[part]}

    def _move(self, part: int, after: str) -> Move:
        known = self._known[part]
        return Move(self._source, str(part), known.position, after, known.timeline)

    def _look(self, part: int, done: consuming.Consumed) -> bool:
        """Report why the next offset of a partition is missing.

        Returns:
            Whether to read the positions again. Until then this partition isn't read.
        """
        if self._topic.known().id not in ("", self._known[part].timeline):
            # Made again: this is reported when the positions are read.
            return True
        at, bounds = self._next[part], self._topic.bounds([part])[part]
        if at < bounds.low:
            between = str(at - 1), str(bounds.low)
            with self._landing.begun([]):
                # The process that moves it records the loss.
                self._positions.move([self._move(part, between[1])])
                text = write_lost(str(part), *between, self._source, self._using)
            done.incidents.append(text)
        elif at > bounds.high:
            self._stuck.add(part)
            done.incidents += self._beyond.tell(str(part), str(at), str(bounds.high))
        return part not in self._stuck

    def _begun(self, part: int, at: Position, topic: str, done: consuming.Consumed) -> Position:
        """Return a partition's position: the first message if the topic was made again."""
        # A user who may not see the topic's id keeps the recorded one.
        if not topic or at.timeline in ("", topic):
            return at._replace(timeline=topic or at.timeline)
        detail = {"part": str(part), "position": at.position, "topic": at.timeline, "now": topic}
        with self._landing.begun([]):
            # Once among all consumers: a process that comes late must not take back counts.
            if self._positions.hold(self._source, str(part), self._lease) != at:
                raise PartitionBusy(f"{self._source} {part}")
            self._positions.put(self._source, str(part), Position("", topic))
            record(CounterIncident.Kind.LOST, self._source, detail, self._using)
        done.incidents.append(
            f"{part}: the topic was made again. Messages after {at.position} in the old topic may "
            "be lost. The new one is counted from its beginning"
        )
        return Position("", topic)


def _connected(stream: Stream, using: str) -> tuple[KafkaTopic, Member]:
    with needs_kafka():
        from django_counters.contrib.streams.kafka_member import Member
        from django_counters.contrib.streams.kafka_topic import KafkaTopic
    topic = _topic(stream)
    group = stream.own["GROUP"] or f"django-counters-{stream.name}"
    # Each database needs all messages.
    group = group if using == DEFAULT_DB_ALIAS else f"{group}-{using}"
    return KafkaTopic(topic), Member(topic, group)


def _topic(stream: Stream) -> Topic:
    return topic_of(stream.location, stream.own)


def _waiting(stream: Stream, known: Mapping[str, Position]) -> Iterator[consuming.StreamBacklog]:
    from django_counters.contrib.streams.kafka_topic import KafkaTopic

    reader = KafkaTopic(_topic(stream))
    try:
        topic = reader.known()
        bounds = reader.bounds(topic.parts)
    except CounterUnavailable as error:
        yield consuming.StreamBacklog(stream.own["TOPIC"], problem=error)
        return
    for part, (low, high) in bounds.items():
        position = known.get(str(part), Position())
        at = int(position.position or low)
        if at > high or (topic.id and position.timeline not in ("", topic.id)):
            yield consuming.StreamBacklog(str(part), is_beyond=True)
            continue
        since = partial(reader.next_time, part, max(at, low))
        yield consuming.StreamBacklog(str(part), messages=high - at, waits=at < high, since=since)


BACKEND = consuming.Backend(KafkaConsumer, _waiting)
