"""A page of messages becomes one parcel: changes are added up, and poison is put aside."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import Error

from django_counters.exceptions import CounterError, StreamPoisoned, UnsupportedBounds
from django_counters.intake.streams import Decode, Message
from django_counters.projections.event import Event
from django_counters.stores.base import Move, Parcel
from django_counters.types import SMALL, UNBOUNDED, Cell, Delta, check_delta
from django_counters.write.change import Change, Ref, named

# Fewer messages say nothing about a deployment.
FEWEST = 10
_REMEMBERED = 1000
_LONGEST = 2000


class Page:
    """The changes of messages that are landed in one transaction."""

    def __init__(self, decode: Decode, using: str) -> None:
        self._decode = decode
        self._using = using
        self._refs: dict[str, Ref] = {}
        self._plain: set[str] = set()
        self._sums: dict[str, int] = {}
        self._cells: dict[tuple[str, Cell | None], int] = {}
        self._strange: dict[str, str] = {}
        self.messages = 0

    @property
    def poison(self) -> int:
        """How many messages cannot be counted."""
        return len(self._strange)

    def add(self, message: Message) -> None:
        """Add all changes of a message or, where one of them is none, put the message aside.

        Raises:
            Error: the database failed, which says nothing about the message.
        """
        self.messages += 1
        sums = self._sums
        try:
            changes = list(self._decode(message))
            # Nearly all: the same keys come again and again.
            deltas = () if self._are_plain(changes) else [self._delta(*c, message) for c in changes]
        except Error:
            raise
        except Exception as error:
            # Whatever it is: a message must not keep all others from being counted.
            self._put_aside(message, error)
            return
        for key, by in changes:
            sums[key] = sums.get(key, 0) + by
        for delta in deltas:
            self._add_cells(delta)

    def parcel(self, source: str, moves: Sequence[Move]) -> Parcel:
        """All of it, between positions."""
        cells, strange = dict(self._cells), dict(self._strange)
        return Parcel("", source, dict(self._sums), cells=cells, strange=strange, moves=moves)

    def _are_plain(self, changes: Sequence[tuple[str, int]]) -> bool:
        plain = self._plain
        for key, by in changes:
            if not (key in plain and type(by) is int and by and -SMALL < by < SMALL):
                return False
        return True

    def _delta(self, key: str, by: int, message: Message) -> Delta:
        ref = self._refs.get(key) or self._refs.setdefault(key, named(key, self._using))
        event = Event(at=message.at) if ref.measure else Event()
        delta = Change(ref, check_delta(by), event=event).delta
        if delta.is_bounded:
            # Whoever lands it does not look at bounds: it has happened already.
            raise UnsupportedBounds(key=key, strategy="a stream")
        if ref.measure is None and ref.bounds == UNBOUNDED:
            self._plain.add(key)
        return delta

    def _add_cells(self, delta: Delta) -> None:
        for cell, by in delta.carried:
            where = str(delta.key), cell
            self._cells[where] = self._cells.get(where, 0) + by

    def _put_aside(self, message: Message, error: Exception) -> None:
        why = str(error) if isinstance(error, CounterError) else repr(error)
        payload = repr(dict(message.fields))
        told = f"{payload:.{_LONGEST}} ({why:.{_LONGEST}})"
        self._strange[f"{message.part} {message.offset}"] = told


class Health:
    """Whether a consumer can go on: a bad deployment must not put all messages aside."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._messages = 0
        self._poison = 0

    def check(self, page: Page) -> None:
        """Look at one more page, before it is landed.

        Raises:
            StreamPoisoned: more than half of the last messages cannot be counted.
        """
        self._messages += page.messages
        self._poison += page.poison
        if self._messages >= FEWEST and 2 * self._poison > self._messages:
            raise StreamPoisoned(stream=self._name, poison=self._poison, messages=self._messages)
        if self._messages > _REMEMBERED:
            self._messages //= 2
            self._poison //= 2
