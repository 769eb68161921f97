"""A stream in a Redis, read from a position on. It is never written to, nor trimmed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django_counters.exceptions import InvalidConfiguration
from django_counters.stores.redis.addresses import address_of
from django_counters.stores.redis.commands import Command, Refused
from django_counters.stores.redis.scripts import STREAM

# A consumer waits longer than somebody who counts.
PATIENCE = 5.0


class Message(NamedTuple):
    """One message of a stream, as `DECODE` is given it.

    Attributes:
        part: the stream that it is in.
        offset: its id there.
        fields: what it holds. Bytes that are not UTF-8 are there as surrogates.
    """

    part: str
    offset: str
    fields: Mapping[str, str] = {}

    @property
    def at(self) -> datetime:
        """When it was added, as its id says: an aware moment."""
        return datetime.fromtimestamp(milliseconds_of(self.offset) / 1000, UTC)


class RedisStream:
    """One stream. Connects when it is asked first. ``location``: as `address_of` takes it.

    Raises:
        InvalidConfiguration: redis-py is not installed, or the location is not a Redis.
    """

    def __init__(self, location: str, name: str) -> None:
        # redis-py is an extra.
        try:
            from django_counters.stores.redis.client import client_of
        except ModuleNotFoundError as error:
            if error.name != "redis":
                raise
            problem = (
                "streams of Redis need redis-py: pip install django-distributed-counters[redis]"
            )
            raise InvalidConfiguration(problem=problem) from None
        self._client = client_of(address_of(location, {"timeout": PATIENCE}))
        self.name = name

    def since(self, position: str, most: int) -> list[Message]:
        """Messages from a position on, that one included; from the first one where it is empty."""
        command = Command(STREAM, (self.name,), (position or "-", most))
        # Control characters are escaped; other bytes are as somebody has written them.
        return [Message(self.name, *one) for one in json.loads(self._client.run(command))]

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


def milliseconds_of(position: str) -> int:
    """When an entry was added, as its id says: milliseconds since 1970."""
    return int(position.partition("-")[0])


def _pairs(flat: list[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)
