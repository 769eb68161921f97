"""The stream of a replay in Redis."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping

import redis
from django.core.management import call_command

from django_counters.contrib.streams import streams

STREAM = "replay"


class ThroughRedis:
    """What `streamed` does with it."""

    name = STREAM

    def begin(self) -> None:
        """Count what an earlier replay has published and did not count."""
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            call_command("counters", "consume", self.name, stdout=nowhere)

    def send(self, messages: Iterable[Mapping[str, str]]) -> None:
        """Publish messages. Those of one page stay in order."""
        with _redis() as client, client.pipeline(transaction=False) as batch:
            for one in messages:
                at = zlib.crc32(one["page"].encode()) % len(self._parts)
                batch.xadd(self._parts[at], dict(one))
            batch.execute()

    def ends(self) -> dict[str, str]:
        """The position of all that is there, of parts that have something."""
        with _redis() as client:
            there = [part for part in self._parts if client.exists(part)]
            return {part: client.xinfo_stream(part)["last-generated-id"] for part in there}

    def waiting(self, positions: Mapping[str, str]) -> int:
        """How many messages come after positions."""
        starts = {part: f"({positions[part]}" if part in positions else "-" for part in self._parts}
        with _redis() as client:
            return sum(len(client.xrange(part, start)) for part, start in starts.items())

    def trim(self, ends: Mapping[str, str]) -> None:
        """Keep the message at the position alone: by that a consumer sees that none is missing."""
        with _redis() as client:
            for part, end in ends.items():
                client.xtrim(part, minid=end, approximate=False)

    @property
    def _parts(self) -> tuple[str, ...]:
        return streams()[self.name].parts


def _redis() -> redis.Redis:
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
