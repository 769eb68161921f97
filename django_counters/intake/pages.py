"""A page of messages becomes one parcel: changes are added up, and poison is put aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.core.exceptions import AppRegistryNotReady, ImproperlyConfigured
from django.core.signing import BadSignature
from django.db import Error

from django_counters.conf import Policy
from django_counters.exceptions import (
    CounterError,
    DecodeFailed,
    InvalidConfiguration,
    UnknownSignature,
    UnsupportedBounds,
)
from django_counters.intake.backend import Entry
from django_counters.intake.histories import Histories
from django_counters.intake.land import Landing
from django_counters.intake.landed import Landed
from django_counters.projections.event import Event
from django_counters.registry import registry
from django_counters.stores.base import Move, Parcel
from django_counters.streams import Decode
from django_counters.types import SMALL, UNBOUNDED, Cell, Delta, check_delta
from django_counters.write.change import Change, Ref, named
from django_counters.write.publication import Publication, publication_in

_LONGEST = 2000
# No message causes these: the process lacks what it needs.
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
# Except this: contents can cause it.
_OF_THE_MESSAGE = (UnboundLocalError,)


class Page:
    """The changes of messages that are landed in one transaction.

    ``decode``: makes changes of messages that no buffer has published. None: there are none.
    ``stream``: the name of the stream that they are of.
    ``stops``: whether a publication without a valid signature is an error, not put aside.

    Attributes:
        messages: how many there are.
        repeats: how many of them were counted before, when it has landed.
    """

    def __init__(self, decode: Decode | None, using: str, stream: str, stops: bool) -> None:
        self._decode = decode
        self._stops = stops
        self._stream = stream
        # Elsewhere a message of any form is one for DECODE.
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
        """How many messages cannot be counted."""
        return len(self._strange)

    def add(self, message: Entry) -> None:
        """Add all changes of a message or, where one of them is none, put the message aside.

        Raises:
            DecodeFailed: `DECODE` raised an error that says nothing about the message.
            UnknownSignature: a publication isn't signed with a key of this process.
            Error: the database failed, which says nothing about the message, unless it is a
                `DataError`: see `Portion`.
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
                # All may be so: with their key, each of them counts later.
                place = f"{message.part} {message.offset}"
                raise UnknownSignature(stream=self._stream, place=place) from error
            if isinstance(error, _OF_THE_PROCESS) and not isinstance(error, _OF_THE_MESSAGE):
                raise DecodeFailed(stream=self._stream, reason=_reason_of(error)) from error
            # Any other: a message must not keep all others from being counted.
            self.put_aside(message, error)
            return
        self.messages += 1
        for key, by in changes:
            sums[key] = sums.get(key, 0) + by
        for delta in deltas:
            self._add_cells(delta)

    def land(self, landing: Landing, source: str, moves: Sequence[Move]) -> Landed:
        """Land all of it between positions, within `Landing.begun`.

        Raises:
            Moved: another process has landed a part of it. The transaction has to be rolled back,
                and the page is of no use any more.
            PageOverflow: a sum of several messages doesn't fit. Roll back, and land fewer.
        """
        histories = Histories(self._published, self._using)
        strangers = list[Publication]()
        for one in histories.fresh:
            # A namespace that publishes elsewhere, or nowhere, may have a bound.
            if all(self._publishes(registry.policy(key)) for key, _ in one.sums):
                self._add_published(one)
            else:
                strangers.append(one)
        self.repeats = histories.repeats
        moves = [*moves, *histories.moves]
        cells, strange = self._cells, self._strange
        parcel = Parcel("", source, self._sums, cells=cells, strange=strange, moves=moves)
        landed = landing.land([parcel], divisible=self.messages > 1)
        histories.tell(landed)
        for one in strangers:
            landed.quarantine("not published here", one.amounts, [one.name])
        return landed

    def _check_place(self, published: Publication) -> None:
        """Refuse what is for another database: its numbers of measures would be others here."""
        if published.using != self._using:
            raise ValueError(f"It is for the database {published.using!r}.")

    def _publishes(self, policy: Policy) -> bool:
        """Whether the counters of a namespace are published to this stream."""
        return policy.buffer is not None and policy.buffer.to == self._stream

    def _add_published(self, published: Publication) -> None:
        sums, cells = self._sums, self._cells
        for (key, cell), by in published.sums.items():
            if cell is None:
                sums[key] = sums.get(key, 0) + by
            else:
                cells[key, cell] = cells.get((key, cell), 0) + by

    def _decoded(self, message: Entry) -> Iterable[tuple[str, int]]:
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

    def _delta(self, key: str, by: int, message: Entry) -> Delta:
        ref = self._refs.get(key) or self._refs.setdefault(key, named(key, self._using))
        event = Event(at=message.at) if ref.measure else Event()
        delta = Change(ref, check_delta(by), event=event).delta
        if delta.is_bounded:
            # The landing does not look at bounds: it has happened already.
            raise UnsupportedBounds(key=key, strategy="a stream")
        if ref.measure is None and ref.bounds == UNBOUNDED:
            self._plain.add(key)
        return delta

    def _add_cells(self, delta: Delta) -> None:
        for cell, by in delta.carried:
            where = str(delta.key), cell
            self._cells[where] = self._cells.get(where, 0) + by

    def put_aside(self, message: Entry, error: Exception) -> None:
        """Count nothing of a message, and keep it for an incident."""
        self.messages += 1
        told = f"{message.payload:.{_LONGEST}} ({_reason_of(error):.{_LONGEST}})"
        self._strange[f"{message.part} {message.offset}"] = told


def _is_of_another_key(error: Exception, message: Entry) -> bool:
    """Whether a message looks like that of a buffer, and its signature isn't valid here."""
    return isinstance(error, BadSignature) and (message.published or "").startswith('{"page":')


def _reason_of(error: Exception) -> str:
    return str(error) if isinstance(error, CounterError) else repr(error)
