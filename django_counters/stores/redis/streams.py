"""A stream in a Redis: read from a position on, and appended to. It is never trimmed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django_counters.exceptions import CounterUnavailable, InvalidConfiguration
from django_counters.stores.redis.addresses import address_of
from django_counters.stores.redis.commands import Command, Refused
from django_counters.stores.redis.scripts import STREAM

if TYPE_CHECKING:
    from django_counters.stores.redis.client import Client

# A consumer waits longer than an increment.
PATIENCE = 5.0
# Bytes of a reply after which the script of the server sends no more.
ENOUGH = 1024 * 1024
#: The one field of a message that a buffer has published.
PUBLISHED = "django_counters"


class Message(NamedTuple):
    """One message of a stream, as `DECODE` is given it.

    Attributes:
        part: the stream that it is in.
        offset: its id there.
        fields: its contents. Bytes that are not UTF-8 are there as surrogates.
    """

    part: str
    offset: str
    fields: Mapping[str, str] = {}

    @property
    def at(self) -> datetime:
        """When it was added, as its id says: an aware moment."""
        return datetime.fromtimestamp(milliseconds_of(self.offset) / 1000, UTC)

    @property
    def published(self) -> str | None:
        """The message of a buffer in it; None where another process has written it."""
        return self.fields.get(PUBLISHED)

    @property
    def payload(self) -> str:
        """All that it holds, for a person."""
        return repr(dict(self.fields))


class Entries(NamedTuple):
    """One page of a stream. ``is_full``: whether more may have been there."""

    messages: list[Message]
    is_full: bool


class RedisStream:
    """One stream. Connects when it is asked first. ``location``: as `address_of` takes it.

    Raises:
        InvalidConfiguration: redis-py is not installed, or the location is not a Redis.
    """

    def __init__(self, location: str, name: str) -> None:
        self._client = _client(location)
        self.name = name

    def since(self, position: str, most: int) -> Entries:
        """Messages from a position on, that one included; from the first one where it is empty."""
        text = self._client.run(Command(STREAM, (self.name,), (position or "-", most)))
        name = self.name
        # Control characters are escaped; other bytes are as they were written.
        found = [Message(name, offset, fields) for offset, fields in json.loads(text)]
        return Entries(found, len(found) == most or len(text) > ENOUGH)

    def end(self) -> str:
        """The id of the last entry that was ever added; empty where there was none."""
        try:
            reply = self._call("XINFO", "STREAM", self.name)
        except Refused as error:
            if error.message == "no such key":
                return ""
            raise
        last = str(dict(_pairs(reply))["last-generated-id"])
        return "" if last == "0-0" else last

    def _call(self, *words: str | int) -> Any:
        return self._client.call(*words, key=self.name)


class RedisOutlet:
    """Appends to the streams of one Redis. ``location`` and errors: as of `RedisStream`."""

    def __init__(self, location: str, parts: Sequence[str]) -> None:
        self._client = _client(location)
        self._parts = parts

    def append(self, history: UUID, text: str) -> None:
        """Append what a buffer publishes to the stream of a history.

        Raises:
            OutcomeUnknown: it may be there, also later.
            CounterUnavailable: it is not there, and never will be.
        """
        part = self._parts[history.int % len(self._parts)]
        try:
            self._client.call("XADD", part, "*", PUBLISHED, text, key=part, reads=False)
        except Refused as error:
            raise CounterUnavailable(using=self._client.using, reason=str(error)) from error


def _client(location: str) -> Client:
    # redis-py is an extra.
    try:
        from django_counters.stores.redis.client import client_of
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        problem = "streams of Redis need redis-py: pip install django-distributed-counters[redis]"
        raise InvalidConfiguration(problem=problem) from None
    return client_of(address_of(location, {"timeout": PATIENCE}))


def milliseconds_of(position: str) -> int:
    """When an entry was added, as its id says: milliseconds since 1970."""
    return int(position.partition("-")[0])


def _pairs(flat: list[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)
