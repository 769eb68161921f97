"""The interface of a backend's consumers, and what they have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import NamedTuple, NoReturn, Protocol

from django.db import DataError
from django.utils.module_loading import import_string

from django_counters.contrib.streams.declared import Stream
from django_counters.contrib.streams.pages import Beyond, MessagePage, StreamMessage
from django_counters.landing import Landed, PageOverflow, ParcelLanding, add_up
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position

# Called with the name of each step before it is taken.
Step = Callable[[str], None]
# Seconds after which the server ends the transaction of a consumer that stands still.
LEASE = 30.0


@dataclass
class Consumed:
    """The result of a consumer's turn.

    Attributes:
        pages: how many transactions counted something.
        messages: how many messages were read.
        counters: how often a total was changed.
        poison: how many messages can't be counted; each is in an incident.
        quarantined: amounts that can't be counted, by counter; each is in an incident.
        incidents: losses, and streams that were replaced.
        busy: parts that another process was reading.
        repeats: how many messages of buffers were counted before.
    """

    pages: int = 0
    messages: int = 0
    counters: int = 0
    poison: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    incidents: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    repeats: int = 0

    def add(self, messages: int, poison: int, landed: Landed, repeats: int) -> None:
        """Add the result of a page."""
        done = 1, messages, landed.counters, poison
        self.join(Consumed(*done, landed.quarantined, landed.incidents, repeats=repeats))

    def join(self, more: Consumed) -> None:
        """Add the result of a later turn."""
        self.pages += more.pages
        self.messages += more.messages
        self.counters += more.counters
        self.poison += more.poison
        self.repeats += more.repeats
        self.incidents += more.incidents
        self.busy = sorted({*self.busy, *more.busy})
        add_up(self.quarantined, more.quarantined)


class Consumer(Protocol):
    """Counts one stream in one database. Any number of them work at once, in any processes."""

    @property
    def is_at_end(self) -> bool:
        """Return whether nothing is left for this consumer after a turn that read nothing."""

    @property
    def longest_pause(self) -> float:
        """Return the seconds without a turn after which other consumers get its parts."""

    def turn(self) -> Consumed:
        """Count the next messages, in transactions of its own.

        Raises:
            DecodeFailed: `DECODE` can't work. This page isn't counted.
            CounterUnavailable, OutcomeUnknown, Refused: the database or the backend was lost. You
                don't have to repair anything.
        """

    def close(self) -> None:
        """Leave its parts to other consumers at once. Don't call `turn` again."""


@dataclass(frozen=True, slots=True)
class StreamBacklog:
    """The backlog of one part of a stream.

    Attributes:
        part: which part.
        lag: the time between the message at the position and the last one; None if unknown.
        messages: the number between the position and the end, at most; None if unknown.
        is_beyond: whether the position is beyond the end, or of another stream.
        waits: whether any message is between them.
        since: returns when the first of them was added; None without one.
        problem: the error, if the backend didn't answer.
    """

    part: str
    lag: timedelta | None = None
    messages: int | None = None
    is_beyond: bool = False
    waits: bool = False
    since: Callable[[], datetime | None] = lambda: None
    problem: Exception | None = None


class Backend(NamedTuple):
    """One kind of stream.

    Attributes:
        consumer: makes a consumer of a stream for a database.
        waiting: returns the backlogs after positions. An error is part of a backlog.
    """

    consumer: Callable[[Stream, str], Consumer]
    waiting: Callable[[Stream, Mapping[str, Position]], Iterator[StreamBacklog]]


def backend_of(stream: Stream) -> Backend:
    """Return the backend of a stream."""
    # Consumers of one kind needn't load those of the other.
    backend: Backend = import_string(f"{__package__}.{stream.backend}_consumer.BACKEND")
    return backend


class Again(Exception):
    """The database refuses a page because of one of its messages. The next page is smaller."""


class Portion:
    """The size of the next page.

    If the database refuses a value, or a sum doesn't fit, the error doesn't name the message. So
    the page is read again with half of its messages, until the message is alone in it.

    Attributes:
        size: the most messages of the next page.
    """

    def __init__(self, most: int) -> None:
        self.size = self._most = most
        self._refused: tuple[str | int, str | int, DataError] | None = None

    def refuse(
        self, messages: Sequence[StreamMessage], error: DataError | PageOverflow
    ) -> NoReturn:
        """Give the next page fewer messages; quarantine a message that is alone.

        Raises:
            Again: always, unless the message was quarantined before.
        """
        if len(messages) == 1 and isinstance(error, DataError):
            (message,) = messages
            if self.refused(message):
                raise error
            self._refused = message.part, message.offset, error
        self.size = max(1, len(messages) // 2)
        raise Again from error

    @property
    def has_refused(self) -> bool:
        """Return whether the database has refused a message that was alone in a page."""
        return self._refused is not None

    def refused(self, message: StreamMessage) -> DataError | None:
        """Return the database's error about a message that was alone in a page."""
        if self._refused is None or self._refused[:2] != (message.part, message.offset):
            return None
        return self._refused[2]

    def landed(self) -> None:
        """Double the size of the next page, up to the stream's ``PAGE``."""
        self.size = min(2 * self.size, self._most)


class PageConsumer:
    """Counts one stream in one database.

    Args:
        stream: the stream.
        using: the database.
        lease: seconds after which the server ends the transaction of a consumer that stands still.
        step: called with the name of each step before it is taken.

    Raises:
        InvalidConfiguration: the stream's function can't be found.
    """

    def __init__(
        self,
        stream: Stream,
        using: str,
        *,
        lease: float = LEASE,
        step: Step = lambda name: None,  # noqa: ARG005
    ) -> None:
        self._source = stream.source
        self._stream = stream.name
        self._using = using
        self._lease = lease
        self._step = step
        self._decode = stream.decoder()
        self._stops = stream.stops
        self._positions = registry.positions(using)
        self._landing = ParcelLanding(using, stream.source)
        self._beyond = Beyond(stream.source, using)
        self._portion = Portion(stream.page)
        self._connect(stream)

    def _connect(self, stream: Stream) -> None:
        """Prepare for the first turn."""

    def _decoded(self, messages: Sequence[StreamMessage], until: float = inf) -> MessagePage:
        """Return a page of the messages that are decoded until a moment, at least one."""
        page = MessagePage(self._decode, self._using, self._stream, self._stops)
        # The database rarely refuses a message.
        add = partial(self._add, page) if self._portion.has_refused else page.add
        for message in messages:
            add(message)
            if time.monotonic() > until:
                break
        return page

    def _add(self, page: MessagePage, message: StreamMessage) -> None:
        """Add a message to a page; quarantine it if the database has refused it."""
        if error := self._portion.refused(message):
            page.put_aside(message, error)
        else:
            page.add(message)

    def _has_landed(self, page: MessagePage, landed: Landed, done: Consumed) -> None:
        """Add a committed page to the result."""
        self._step("committed")
        self._portion.landed()
        done.add(page.messages, page.poison, landed, page.repeats)
