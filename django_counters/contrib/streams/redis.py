"""Redis streams: their options, their messages, and how to read and append to them.

A stream is never trimmed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django_counters.errors import CounterUnavailable, InvalidConfiguration
from django_counters.options import Option
from django_counters.redis.addresses import address_of, needs_redis
from django_counters.redis.commands import Script, ScriptRun, ServerRefused

if TYPE_CHECKING:
    from django_counters.redis.client import Client

# A consumer waits longer than an increment.
PATIENCE = 5.0
# The script sends no more entries after a reply of this size in bytes.
ENOUGH = 1024 * 1024
#: The only field of a message that a buffer publishes.
PUBLISHED = "django_counters"
STREAM = Script((files(__package__) / "stream.lua").read_text("utf-8"))


def _is_stream(value: object) -> bool:
    names = [value] if isinstance(value, str) else value
    return (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) and 0 < len(name) <= 255 for name in names)
        and 0 < len(names) == len(set(names))
    )


OPTIONS = (
    Option(
        "LOCATION",
        "default",
        "alias of CACHES, or URL",
        "The Redis server, as `CACHE` of [cached counters](#strategies) names it.",
        lambda value: isinstance(value, str),
        secret=True,
    ),
    Option(
        "STREAM",
        None,
        "key of a stream, or a list of them",
        "The streams to read. Each is a part: as many consumers work at once as there are parts.",
        _is_stream,
    ),
)


def problems(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of options whose values are each accepted. Connects to nothing."""
    try:
        address_of(values["LOCATION"])
    except InvalidConfiguration as error:
        yield f"LOCATION: {error.problem}"


def parts(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the streams, each of which is a part."""
    declared = values["STREAM"]
    return (declared,) if isinstance(declared, str) else tuple(declared)


class Message(NamedTuple):
    """One message of a stream, as passed to `DECODE`.

    Attributes:
        part: the stream that it is in.
        offset: its id there.
        fields: its contents. Bytes that aren't UTF-8 are surrogates.
    """

    part: str
    offset: str
    fields: Mapping[str, str] = {}

    @property
    def at(self) -> datetime:
        """Return the aware moment when it was added, from its id."""
        return datetime.fromtimestamp(milliseconds_of(self.offset) / 1000, UTC)

    @property
    def published(self) -> str | None:
        """Return the buffer's message in it; None if it isn't a publication."""
        return self.fields.get(PUBLISHED)

    @property
    def payload(self) -> str:
        """Return its whole contents as text for people."""
        return repr(dict(self.fields))


class Entries(NamedTuple):
    """One page of a stream. ``is_full``: whether there may be more."""

    messages: list[Message]
    is_full: bool


class RedisStream:
    """One stream. Connects on first use. ``location``: as for `address_of`.

    Raises:
        InvalidConfiguration: redis-py isn't installed, or the location isn't a Redis server.
    """

    def __init__(self, location: str, name: str) -> None:
        self._client = _client(location)
        self.name = name

    def since(self, position: str, most: int) -> Entries:
        """Return the messages from a position on, inclusive; from the first one if it is empty."""
        text = self._client.run(ScriptRun(STREAM, (self.name,), (position or "-", most)))
        # Control characters are escaped; other bytes are as they were written.
        page = [Message(self.name, offset, fields) for offset, fields in json.loads(text)]
        return Entries(page, len(page) == most or len(text) > ENOUGH)

    def end(self) -> str:
        """Return the id of the last entry that was ever added; empty if there was none."""
        try:
            reply = self._client.call("XINFO", "STREAM", self.name, key=self.name)
        except ServerRefused as error:
            if error.message == "no such key":
                return ""
            raise
        last = str(dict(zip(reply[::2], reply[1::2], strict=True))["last-generated-id"])
        return "" if last == "0-0" else last


class RedisOutlet:
    """Appends to the streams of one Redis server. ``location`` and errors: as of `RedisStream`."""

    def __init__(self, location: str, parts: Sequence[str]) -> None:
        self._client = _client(location)
        self._parts = parts

    def append(self, history: UUID, text: str) -> None:
        """Append a buffer's message to the stream of its history.

        Raises:
            OutcomeUnknown: the message may be in the stream, now or later.
            CounterUnavailable: the message isn't in the stream, and never will be.
        """
        part = self._parts[history.int % len(self._parts)]
        try:
            self._client.call("XADD", part, "*", PUBLISHED, text, key=part, reads=False)
        except ServerRefused as error:
            raise CounterUnavailable(using=self._client.using, reason=str(error)) from error


def _client(location: str) -> Client:
    with needs_redis("streams of Redis"):
        from django_counters.redis.client import client_of
    return client_of(address_of(location, {"timeout": PATIENCE}))


def milliseconds_of(position: str) -> int:
    """Return when an entry was added, from its id: milliseconds since 1970."""
    return int(position.partition("-")[0])
