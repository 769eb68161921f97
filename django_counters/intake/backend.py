"""The interface of a backend of streams: its consumer, and the size of its backlog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from django_counters.intake.landed import Landed, add_up
from django_counters.stores.sql.positions import Position
from django_counters.streams import Stream

# Called with the name of each step before it is taken.
Step = Callable[[str], None]


class Entry(Protocol):
    """One message, regardless of its backend."""

    @property
    def part(self) -> str | int:
        """The part that it is in."""

    @property
    def offset(self) -> str | int:
        """Where it is there."""

    @property
    def at(self) -> datetime:
        """When it was added: an aware moment."""

    @property
    def published(self) -> str | None:
        """The message of a buffer in it; None where another process has written it."""

    @property
    def payload(self) -> str:
        """All that it holds, for a person."""


@dataclass
class Consumed:
    """The result of a consumer's turn.

    Attributes:
        pages: how many transactions counted something.
        messages: how many messages were read.
        counters: how often a total was changed.
        poison: how many messages could not be counted; each is in an incident.
        quarantined: amounts that could not be landed, by counter; each is in an incident.
        incidents: losses, and streams that turned out to be others.
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
        """Add what became of a page."""
        done = 1, messages, landed.counters, poison
        self.join(Consumed(*done, landed.quarantined, landed.incidents, repeats=repeats))

    def join(self, more: Consumed) -> None:
        """Add what was done later."""
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
        """Whether a turn that read nothing means that nothing is left, for this consumer."""

    @property
    def longest_pause(self) -> float:
        """After how many seconds without a turn others take its parts over."""

    def turn(self) -> Consumed:
        """Count what comes next, in transactions of its own.

        Raises:
            DecodeFailed: `DECODE` can't work. This page is not counted.
            CounterUnavailable, OutcomeUnknown, Refused: the database or the backend was lost.
                Nothing has to be repaired.
        """

    def close(self) -> None:
        """Leave what it reads to others, at once. No turn follows."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The amount that waits in one part of a stream.

    Attributes:
        part: which part.
        lag: the time between the message at the position and the last one; None if unknown.
        messages: how many are between the position and the end, at most; None if unknown.
        is_beyond: whether the position is beyond the end, or of another stream.
        waits: whether anything does.
        since: asks when the first message that waits was added; None where none is found.
        problem: the error where it could not be asked.
    """

    part: str
    lag: timedelta | None = None
    messages: int | None = None
    is_beyond: bool = False
    waits: bool = False
    since: Callable[[], datetime | None] = lambda: None
    problem: Exception | None = None


class Backend(NamedTuple):
    """One kind of streams.

    Attributes:
        consumer: makes a consumer of a stream for a database.
        waiting: asks what waits after positions. What does not answer is told as a problem.
    """

    consumer: Callable[[Stream, str], Consumer]
    waiting: Callable[[Stream, Mapping[str, Position]], Iterator[Waiting]]
