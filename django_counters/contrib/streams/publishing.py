"""Publications, the messages of buffers on a stream, and their publishing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.core.signing import Signer

from django_counters import clock
from django_counters.contrib.streams.declared import streams
from django_counters.contrib.streams.kafka import needs_kafka, topic_of
from django_counters.contrib.streams.redis import RedisOutlet
from django_counters.effects import UnknownKind
from django_counters.errors import InvalidConfiguration
from django_counters.redis.keys import cell_field, cell_in
from django_counters.strategies.declaring import Recipe
from django_counters.tokens import mint, moment_of
from django_counters.types import Cell, Delta, Sums, sums_of, why_no_key
from django_counters.write.pages import STILL, Lander, Page, deltas_in

# -- The message that a buffer publishes. Consumers recognize it by the name of its only field.


class Publication(NamedTuple):
    """A page of a buffer, as one message of a stream.

    Attributes:
        page: the ``hex`` of a UUIDv7, whose time is that of the page.
        using: the database that it is for: the cells have its numbers of measures.
        incarnation: the history that it is in: of one buffer in one process.
        number: its place in the history, from 1 on. No other page of the history has it.
        sums: the amounts of counters and their cells.
        unknown: in a consumer, the amounts of cells of apps that aren't installed there, by field.
    """

    page: str
    using: str
    incarnation: str
    number: int
    sums: Sums[str]
    unknown: Mapping[str, str] = {}

    @property
    def at(self) -> datetime:
        """Return when it was sealed, by its process's clock."""
        return moment_of(UUID(self.page))

    @property
    def name(self) -> str:
        """Return its name in incidents."""
        return f"{self.incarnation} {self.number}"

    @property
    def amounts(self) -> dict[str, int]:
        """Return the amounts of the counters, without their cells."""
        return {key: by for (key, cell), by in self.sums.items() if cell is None}

    def signed_for(self, stream: str) -> str:
        """Return it as one line of ASCII, signed for a stream."""
        sums = {_field(key, cell): by for (key, cell), by in self.sums.items() if by}
        text = json.dumps({**self._asdict(), "sums": sums}, separators=(",", ":"))
        return signer(stream).sign(text)


def signer(stream: str) -> Signer:
    """Return the signer of a stream's publications, with ``SECRET_KEY``."""
    return Signer(salt=f"django_counters.stream.{stream}")


def publication_in(text: str, stream: str) -> Publication:
    """Return the publication in a message of a stream.

    Raises:
        BadSignature: this project hasn't signed it, or has signed it for another stream.
        ValueError, TypeError, LookupError, AttributeError, OverflowError: it isn't a publication.
    """
    data = json.loads(signer(stream).unsign(text))
    sums, unknown = _sums_in(data["sums"])
    publication = Publication(**{**data, "sums": sums, "unknown": unknown})
    ids = (publication.page, publication.incarnation)
    if any(UUID(text).hex != text for text in ids) or not _is_whole(publication.number, 1):
        raise ValueError(f"{publication.name} isn't a page of a buffer.")
    # Raises OverflowError if the moment is beyond the calendar.
    str(publication.at)
    return publication


def _field(key: str, cell: Cell | None) -> str:
    return key if cell is None else cell_field(cell, key)


def _sums_in(data: Mapping[str, Any]) -> tuple[Sums[str], dict[str, str]]:
    sums: dict[tuple[str, Cell | None], int] = {}
    unknown: dict[str, str] = {}
    for field, by in data.items():
        if not _is_whole(by):
            raise ValueError(f"{by!r} isn't a change of {field!r}.")
        try:
            key, cell = cell_in(field) or (field, None)
        except UnknownKind:
            unknown[field] = str(by)
            continue
        if reason := why_no_key(key):
            raise ValueError(f"{field!r} isn't a counter: {reason}.")
        sums[key, cell] = by
    return sums, unknown


def _is_whole(number: object, low: int | None = None) -> bool:
    return type(number) is int and (low is None or low <= number)


# -- Publishes the pages of buffers to a stream, from which consumers count them.


class Outlet(Protocol):
    """Appends messages to one stream. Connects on first use."""

    def append(self, history: UUID, text: str) -> None:
        """Append a message of a history, and wait for the acknowledgement.

        All messages of a history are in one part, in the order of the calls, so that none is
        counted before an earlier one.

        Raises:
            OutcomeUnknown: the message may be in the stream, now or later.
            CounterUnavailable: the message isn't in the stream, and never will be.
        """


def outlet_to(name: str) -> Outlet:
    """Return an outlet to a stream, by its name in the settings.

    Raises:
        InvalidConfiguration: the stream isn't declared, or its package isn't installed.
    """
    declared = streams()
    if name not in declared:
        raise InvalidConfiguration(problem=f"COUNTERS_STREAMS has no stream {name!r}.")
    stream = declared[name]
    if stream.backend != "kafka":
        return RedisOutlet(stream.location, stream.parts)
    with needs_kafka():
        from django_counters.contrib.streams.kafka_outlet import KafkaOutlet
    return KafkaOutlet(topic_of(stream.location, stream.own))


class _Open(NamedTuple):
    """The page that is being published, or was published last."""

    page: Page
    publication: Publication


class Publisher(Lander):
    """Publishes pages. Each is counted once, by its number in the history of its buffer.

    The next page is sent when this one is published.

    Args:
        recipe: the counters' recipe.
        using: the counters' database.
        to: the stream.
    """

    size = 500

    def __init__(self, recipe: Recipe, using: str, to: str) -> None:
        super().__init__(recipe, using)
        self._to = to
        # Import the outlet now: the publishing thread must import nothing.
        outlet_to(to)

    def begin(self) -> None:
        """Begin a new history: earlier messages belong to another process, or were dropped."""
        self._outlet: Outlet | None = None
        self._open: _Open | None = None
        self._before: Publication | None = None

    def land(self, page: Page) -> None:
        """Publish a page. It counts when a consumer comes to it."""
        deltas = deltas_in(page.entries)
        if not deltas:
            return
        publication = self._publication(page, deltas)
        outlet = self._outlet = self._outlet or outlet_to(self._to)
        outlet.append(UUID(publication.incarnation), publication.signed_for(self._to))

    def _publication(self, page: Page, deltas: tuple[Delta, ...]) -> Publication:
        """Return the message of a page: the same one, if it may be in the stream."""
        if self._open and self._open.page is not page:
            # Pages come one after the other, so the earlier one is published.
            self._before = self._open.publication
        elif self._open and self._open.publication.page == page.id:
            return self._open.publication
        incarnation, number = self._next(page)
        sums = {(str(delta.key), cell): by for delta in deltas for cell, by in sums_of(delta)}
        publication = Publication(page.id, self.using, incarnation, number, sums)
        self._open = _Open(page, publication)
        return publication

    def _next(self, page: Page) -> tuple[str, int]:
        """Return the place of an unsent page. A refused page leaves its number free."""
        before = self._before
        if before is None or moment_of(UUID(page.id)) - before.at > STILL:
            return mint(clock.utc()).hex, 1
        return before.incarnation, before.number + 1

    def has_landed(self, page: Page) -> bool:
        """Return whether a page was counted; it was published if its answer was lost."""
        present = self._open
        if present is None or present.page is not page:
            return False
        publication = present.publication
        return int(self._position(publication.incarnation) or 0) >= publication.number
