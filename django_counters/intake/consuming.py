"""The common part of all consumers, and which messages make the next page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import NoReturn

from django.db import DataError

from django_counters.intake.backend import Consumed, Entry, Step
from django_counters.intake.beyond import Beyond
from django_counters.intake.land import Landing
from django_counters.intake.landed import Landed, PageOverflow
from django_counters.intake.pages import Page
from django_counters.registry import registry
from django_counters.streams import Stream

# Seconds after which the server ends the transaction of a consumer that stands still.
LEASE = 30.0


class Again(Exception):
    """The database takes no page with one of these messages. The next page is another one."""


class Portion:
    """How many messages the next page has.

    If the database can't take a value, or a sum doesn't fit, nothing says which message is to
    blame. So the page is read again with half of its messages, until the message is alone in it.

    Attributes:
        size: how many messages the next page has at most.
    """

    def __init__(self, most: int) -> None:
        self.size = self._most = most
        self._refused: tuple[str | int, str | int, DataError] | None = None

    def refuse(self, messages: Sequence[Entry], error: DataError | PageOverflow) -> NoReturn:
        """Let the next page have fewer messages or, of one message, put it aside.

        Raises:
            Again: always, unless the message was put aside before.
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
        """Whether a message was refused that was alone in a page."""
        return self._refused is not None

    def refused(self, message: Entry) -> DataError | None:
        """The error of the database about a message that was alone in a page."""
        if self._refused is None or self._refused[:2] != (message.part, message.offset):
            return None
        return self._refused[2]

    def landed(self) -> None:
        """A page has landed: the next one may have more messages again."""
        self.size = min(2 * self.size, self._most)


class PageConsumer:
    """Counts one stream in one database.

    Args:
        stream: which one.
        using: the database.
        lease: after how many seconds of standing still within a transaction others may go on.
        step: called with the name of each step before it is taken.

    Raises:
        InvalidConfiguration: the function of the stream cannot be found.
    """

    def __init__(self, stream: Stream, using: str, lease: float, step: Step) -> None:
        self._source = stream.source
        self._stream = stream.name
        self._using = using
        self._lease = lease
        self._step = step
        self._decode = stream.decoder()
        self._stops = stream.stops
        self._positions = registry.positions(using)
        self._landing = Landing(using, stream.source)
        self._beyond = Beyond(stream.source, using)
        self._portion = Portion(stream.page)

    def _decoded(self, messages: Sequence[Entry], until: float = inf) -> Page:
        """A page of messages: of those that are decoded until a moment, and of one at least."""
        page, now = Page(self._decode, self._using, self._stream, self._stops), time.monotonic
        # Nearly always the database has refused none.
        add = partial(self._add, page) if self._portion.has_refused else page.add
        for message in messages:
            add(message)
            if now() > until:
                break
        return page

    def _add(self, page: Page, message: Entry) -> None:
        """Add a message to a page, or put it aside if the database has refused it."""
        if error := self._portion.refused(message):
            page.put_aside(message, error)
        else:
            page.add(message)

    def _has_landed(self, page: Page, landed: Landed, done: Consumed) -> None:
        """Tell of a page that is committed."""
        self._step("committed")
        self._portion.landed()
        done.add(page.messages, page.poison, landed, page.repeats)
