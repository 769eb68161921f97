"""Pages of messages, each counted between two positions; a message with a number counts once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from django.core.exceptions import AppRegistryNotReady, ImproperlyConfigured
from django.core.signing import BadSignature
from django.db import Error

from django_counters.conf import Policy
from django_counters.contrib.streams.declared import Decode
from django_counters.contrib.streams.errors import DecodeFailed, UnknownSignature
from django_counters.contrib.streams.publishing import Publication, publication_in
from django_counters.errors import CounterError, InvalidConfiguration, UnsupportedBounds
from django_counters.event import Event
from django_counters.landing import Landed, ParcelLanding
from django_counters.registry import registry
from django_counters.stores.base import Move, Parcel
from django_counters.stores.sql.batches import OLDEST, REMEMBERED, SqlBatches
from django_counters.stores.sql.incidents import record
from django_counters.tables import CounterIncident
from django_counters.types import SMALL, UNBOUNDED, Cell, Delta, check_delta
from django_counters.write.changes import Change, Ref, named
from django_counters.write.pages import SOURCE

# -- Counts each message of a buffer once, by its number, and records lost messages.


class Gap(NamedTuple):
    """Missing pages of one history: those between the numbers ``after`` and ``before``."""

    incarnation: str
    after: int
    before: int


class Histories:
    """Sorts messages of buffers by the positions of their histories: counted, or not.

    Attributes:
        fresh: the messages that aren't counted.
        repeats: the number of messages that were counted before.
        expired: the messages that are too old for a position.
        gaps: the missing pages.
        moves: the new positions of the histories.
    """

    def __init__(self, publications: list[Publication], using: str) -> None:
        self.fresh: list[Publication] = []
        self.expired: list[Publication] = []
        self.gaps: list[Gap] = []
        self.repeats = 0
        self.moves: list[Move] = []
        if publications:
            # One statement. A process that counts the same concurrently loses the compare-and-set.
            incarnations = {page.incarnation for page in publications}
            known = registry.positions(using).among(SOURCE, incarnations)
            before = {part: int(at.position) for part, at in known.items()}
            now = registry.kept(SqlBatches, using).now()
            self.moves = list(self._sorted(publications, before, now))

    def _sorted(
        self, publications: list[Publication], before: Mapping[str, int], now: datetime
    ) -> Iterator[Move]:
        reached = dict(before)
        for page in publications:
            at = reached.get(page.incarnation, 0)
            if page.number <= at:
                self.repeats += 1
                continue
            # After its position was pruned, a history can begin with any number.
            is_old = not now - OLDEST <= page.at <= now + (REMEMBERED - OLDEST)
            if page.number > at + 1 and (at or not is_old):
                self.gaps.append(Gap(page.incarnation, at, page.number))
            (self.expired if is_old else self.fresh).append(page)
            reached[page.incarnation] = page.number
        for part, number in reached.items():
            was = before.get(part)
            if number != was:
                yield Move(SOURCE, part, "" if was is None else str(was), str(number))

    def tell(self, landed: Landed) -> None:
        """Record expired and missing messages, in the transaction that moves past them."""
        for page in self.expired:
            landed.quarantine("expired", page.amounts, [page.name])
        for gap in self.gaps:
            between = str(gap.after), str(gap.before)
            called = f"buffer {gap.incarnation}"
            landed.incidents.append(write_lost(called, *between, landed.source, landed.using))


class Beyond:
    """Reports positions beyond the end of a stream: once per process, once in the database.

    Args:
        source: the name of the stream in incidents.
        using: the database.
    """

    def __init__(self, source: str, using: str) -> None:
        self._source = source
        self._using = using
        # The reported position of each part.
        self._told: dict[str, str] = {}

    def tell(self, part: str, position: str, end: str) -> list[str]:
        """Return the text about a part, unless it was returned before. Call it in a landing."""
        if self._told.get(part) == position:
            return []
        self._told[part] = position
        # Without the end, which moves: a restarted process must not write a second incident.
        detail = {"part": part, "position": position, "reason": "beyond the end"}
        rows = CounterIncident._base_manager.using(self._using)
        kind = CounterIncident.Kind.LOST
        if not rows.filter(kind=kind, subject=self._source, detail=detail).exists():
            record(kind, self._source, detail, self._using)
        return [
            f"{part}: the position {position} is beyond the end {end or '(it is empty)'}: another "
            "stream has taken its place. Nothing of it is counted until its position is deleted"
        ]


def write_lost(called: str, after: str, before: str, source: str, using: str) -> str:
    """Record that a range is missing and wasn't counted; return a text about it.

    Args:
        called: the name of the part or history, for people; its last word is in the incident.
        after: the last message that was counted, or is known.
        before: the first existing message after the range.
        source: the name of the stream in incidents.
        using: the database, in the transaction that moves past the range.
    """
    detail = {"part": called.split(" ")[-1], "after": after, "before": before}
    record(CounterIncident.Kind.LOST, source, detail, using)
    return f"lost: {called} after {after}"


# -- Turns a page of messages into one parcel: adds up changes, and quarantines poison.

_LONGEST = 2000
# No message causes these errors: the process lacks something.
_OF_THE_PROCESS = (
    AppRegistryNotReady,
    ImportError,
    ImproperlyConfigured,
    NameError,
    NotImplementedError,
    # Other kinds of OSError come from contents, such as a date that is out of range.
    ConnectionError,
    FileNotFoundError,
    PermissionError,
    TimeoutError,
)
# A subclass of NameError that a message can cause.
_OF_THE_MESSAGE = (UnboundLocalError,)


class StreamMessage(Protocol):
    """A message of any backend."""

    @property
    def part(self) -> str | int:
        """The part that it is in."""

    @property
    def offset(self) -> str | int:
        """Its place there."""

    @property
    def at(self) -> datetime:
        """When it was added: an aware moment."""

    @property
    def published(self) -> str | None:
        """The message of a buffer in it; None if another process has written it."""

    @property
    def payload(self) -> str:
        """Its whole contents, for a person."""


class MessagePage:
    """The changes of messages that are counted in one transaction.

    Args:
        decode: decodes messages that no buffer has published; None if buffers publish all.
        using: the database.
        stream: the name of their stream.
        stops: whether a publication without a valid signature is an error; else it is quarantined.

    Attributes:
        messages: the number of messages.
        repeats: after landing, how many of them were counted before.
    """

    def __init__(self, decode: Decode | None, using: str, stream: str, stops: bool) -> None:
        self._decode = decode
        self._stops = stops
        self._stream = stream
        # Without publishers, DECODE gets messages of any form.
        self._has_publishers = any(map(self._publishes, registry.policies().values()))
        self._using = using
        self._refs: dict[str, Ref] = {}
        self._plain: set[str] = set()
        self._sums: dict[str, int] = {}
        self._cells: dict[tuple[str, Cell | None], int] = {}
        self._strange: dict[str, str] = {}
        self._published: list[Publication] = []
        self.messages = 0
        self.repeats = 0

    @property
    def poison(self) -> int:
        """Return the number of messages that can't be counted."""
        return len(self._strange)

    def add(self, message: StreamMessage) -> None:
        """Add all changes of a message. If one of them is invalid, quarantine the message.

        Raises:
            DecodeFailed: `DECODE` raised an error that the message didn't cause.
            UnknownSignature: a publication isn't signed with a key of this process.
            Error: the database failed. Only a `DataError` can be the message's fault: see
                `Portion`.
        """
        sums = self._sums
        try:
            text = message.published if self._has_publishers else None
            if text is not None:
                published = publication_in(text, self._stream)
                self._check_place(published)
                self._published.append(published)
                self.messages += 1
                return
            changes = list(self._decoded(message))
            # Nearly all: the same keys come again and again.
            deltas = () if self._are_plain(changes) else [self._delta(*c, message) for c in changes]
        except Error:
            raise
        except Exception as error:
            if self._stops and _is_of_another_key(error, message):
                # All messages may have this key. Each counts when the process has it.
                place = f"{message.part} {message.offset}"
                raise UnknownSignature(stream=self._stream, place=place) from error
            if isinstance(error, _OF_THE_PROCESS) and not isinstance(error, _OF_THE_MESSAGE):
                raise DecodeFailed(stream=self._stream, reason=_reason_of(error)) from error
            # Any other error: one message must not stop the others.
            self.put_aside(message, error)
            return
        self.messages += 1
        for key, by in changes:
            sums[key] = sums.get(key, 0) + by
        for delta in deltas:
            self._add_cells(delta)

    def land(self, landing: ParcelLanding, source: str, moves: Sequence[Move]) -> Landed:
        """Count all of it between positions, within `ParcelLanding.begun`.

        Raises:
            Moved: another process has counted a part of it. Roll back, and drop the page.
            PageOverflow: a sum of several messages doesn't fit. Roll back, and count fewer.
        """
        histories = Histories(self._published, self._using)
        refused, strange = list[Publication](), {**self._strange}
        for publication in histories.fresh:
            # A namespace that doesn't publish to this stream may have a bound.
            if all(self._publishes(registry.policy(key)) for key, _ in publication.sums):
                self._add_published(publication)
                for field, by in publication.unknown.items():
                    strange[f"{publication.name} {field}"] = by
            else:
                refused.append(publication)
        self.repeats = histories.repeats
        moves = [*moves, *histories.moves]
        parcel = Parcel("", source, self._sums, cells=self._cells, strange=strange, moves=moves)
        landed = landing.land([parcel], divisible=self.messages > 1)
        histories.tell(landed)
        for publication in refused:
            landed.quarantine("not published here", publication.amounts, [publication.name])
        return landed

    def _check_place(self, published: Publication) -> None:
        """Refuse a publication for another database: its measures have other numbers."""
        if published.using != self._using:
            raise ValueError(f"It is for the database {published.using!r}.")

    def _publishes(self, policy: Policy) -> bool:
        """Return whether a namespace's counters are published to this stream."""
        return policy.intake is not None and policy.intake.to == self._stream

    def _add_published(self, published: Publication) -> None:
        sums, cells = self._sums, self._cells
        for (key, cell), by in published.sums.items():
            if cell is None:
                sums[key] = sums.get(key, 0) + by
            else:
                cells[key, cell] = cells.get((key, cell), 0) + by

    def _decoded(self, message: StreamMessage) -> Iterable[tuple[str, int]]:
        if self._decode is None:
            if not self._has_publishers:
                raise InvalidConfiguration(problem="it is missing, and no BUFFER publishes there")
            raise ValueError("the stream has no DECODE")
        return self._decode(message)

    def _are_plain(self, changes: Sequence[tuple[str, int]]) -> bool:
        plain = self._plain
        for key, by in changes:
            if not (key in plain and type(by) is int and by and -SMALL < by < SMALL):
                return False
        return True

    def _delta(self, key: str, by: int, message: StreamMessage) -> Delta:
        ref = self._refs.get(key) or self._refs.setdefault(key, named(key, self._using))
        event = Event(at=message.at) if ref.measure else Event()
        delta = Change(ref, check_delta(by), event=event).delta
        if delta.is_bounded:
            # Landing ignores bounds, because the event is past.
            raise UnsupportedBounds(key=key, strategy="a stream")
        if ref.measure is None and ref.bounds == UNBOUNDED:
            self._plain.add(key)
        return delta

    def _add_cells(self, delta: Delta) -> None:
        for cell, by in delta.carried:
            where = str(delta.key), cell
            self._cells[where] = self._cells.get(where, 0) + by

    def put_aside(self, message: StreamMessage, error: Exception) -> None:
        """Quarantine a message: count nothing of it, and keep it for an incident."""
        self.messages += 1
        text = f"{message.payload:.{_LONGEST}} ({_reason_of(error):.{_LONGEST}})"
        self._strange[f"{message.part} {message.offset}"] = text


def _is_of_another_key(error: Exception, message: StreamMessage) -> bool:
    """Return whether a message looks like a buffer's, and its signature isn't valid here."""
    return isinstance(error, BadSignature) and (message.published or "").startswith('{"page":')


def _reason_of(error: Exception) -> str:
    return str(error) if isinstance(error, CounterError) else repr(error)
