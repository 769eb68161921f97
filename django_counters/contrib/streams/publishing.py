"""Publishes the pages of buffers to a stream, from which consumers count them."""

from __future__ import annotations

from typing import NamedTuple, Protocol
from uuid import UUID

from django_counters import clock
from django_counters.contrib.streams.declared import Stream, streams
from django_counters.contrib.streams.kafka import MISSING, topic_of
from django_counters.contrib.streams.publication import Publication
from django_counters.contrib.streams.redis import RedisOutlet
from django_counters.errors import InvalidConfiguration
from django_counters.strategies.declaring import Recipe
from django_counters.tokens import mint, moment_of
from django_counters.types import Delta, sums_of
from django_counters.write.pages import STILL, Lander, Page, deltas_in


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
    if stream.backend == "kafka":
        return _to_kafka(stream)
    return RedisOutlet(stream.location, stream.parts)


def _to_kafka(stream: Stream) -> Outlet:
    # confluent-kafka is an extra.
    try:
        from django_counters.contrib.streams.kafka_outlet import KafkaOutlet
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise InvalidConfiguration(problem=MISSING) from None
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
