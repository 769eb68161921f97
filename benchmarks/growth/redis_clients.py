"""Connections to Redis that are all busy: beside pgbench, with as little Python as there can be.

Each has one command under way. The words were packed beforehand, and of an answer nothing is
looked at but whether it is an error. A few processes share the connections, and each of them sends
on all of its own before it reads the first answer.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import redis
from django.db import connection

from benchmarks.harness import Sample, Side
from benchmarks.writers import Writers, writers

SECONDS = 0.5  # of one slice
Words = tuple[object, ...]


@dataclass(frozen=True)
class Turn:
    """What a process does again and again: one command on each of its connections."""

    url: str
    connections: int
    words: Words

    def __call__(self) -> None:
        connected, packed = _connected(self.url, self.connections, self.words)
        for one in connected:
            one.send_packed_command(packed)
        for one in connected:
            one.read_response()


@cache
def _connected(url: str, number: int, words: Words) -> tuple[Sequence[Any], Any]:
    """The connections of this process, and the command in the words of the protocol."""
    pool = redis.ConnectionPool.from_url(url)
    connected: list[Any] = [pool.get_connection() for _ in range(number)]
    return connected, connected[0].pack_command(*words)


@contextmanager
def redis_clients(count: int, url: str) -> Iterator[Callable[[Words], Side]]:
    """Start so many clients; give what makes a side in which all of them send some words."""
    # As many processes as there are cores, as long as each has the same number of connections.
    processes = math.gcd(count, os.cpu_count() or 1)
    each = count // processes
    with writers(processes, str(connection.settings_dict["NAME"])) as team:
        yield lambda words: _side(team, Turn(url, each, words))


def _side(team: Writers, turn: Turn) -> Side:
    turns = team.side(turn, SECONDS)

    def run() -> Sample:
        done = turns()
        return Sample(done.operations * turn.connections, done.seconds)

    return run
