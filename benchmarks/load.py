"""Visitors of a server: one process that keeps a number of connections busy.

Each connection sends its next request when the last one was answered. Requests are made beforehand
and answers are hardly looked at, so that the time is the server's. Needs the standard library
alone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from benchmarks.harness import Sample, Side

ANSWERS_WITHIN = 60.0
# Of one core: above it the process would measure itself.
MOST_BUSY = 0.5
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_slices = count()


class LoadFailed(Exception):
    """A request was not answered as it should be, or the visitors were too slow."""


class Request(NamedTuple):
    """What one connection sends again and again, with another word before the tail each time."""

    head: bytes
    tail: bytes = b""


class Done(NamedTuple):
    """How long each answer took, how long all took, and for how long the process was at work."""

    waits: list[float]
    seconds: float
    busy: float


@contextmanager
def load(port: int) -> Iterator[Callable[[Sequence[Request], float], Side]]:
    """Visitors of a port of the loopback: a side of requests, one for each connection."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:

        def side(requests: Sequence[Request], seconds: float) -> Side:
            def run() -> Sample:
                order = (port, requests, seconds, next(_slices))
                return sampled(pool.submit(visit, *order).result(seconds + ANSWERS_WITHIN))

            return run

        yield side


def sampled(done: Done) -> Sample:
    """What a slice comes to, if the visitors had time."""
    share = done.busy / done.seconds
    if share > MOST_BUSY:
        raise LoadFailed(f"the visitors took {share:.0%} of a core: they measure themselves")
    return Sample(len(done.waits), done.seconds, tuple(done.waits))


def visit(port: int, requests: Sequence[Request], seconds: float, name: int) -> Done:
    """Send these requests, one on each connection; the slice has a name of its own."""
    return asyncio.run(_visit(port, requests, seconds, name))


async def _visit(port: int, requests: Sequence[Request], seconds: float, name: int) -> Done:
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in requests]
    words = (b"%d-%d" % (name, number) for number in count())
    waits: list[float] = []
    working, started = time.process_time(), time.perf_counter()
    pairs = zip(opened, requests, strict=True)
    visitors = (
        _busy(reader, writer, request, words, started + seconds, waits)
        for (reader, writer), request in pairs
    )
    try:
        await asyncio.gather(*visitors)
        return Done(waits, time.perf_counter() - started, time.process_time() - working)
    except (EOFError, OSError) as error:
        raise LoadFailed(f"the server hung up: {error}") from None
    finally:
        for _, writer in opened:
            writer.close()


async def _busy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    request: Request,
    words: Iterator[bytes],
    deadline: float,
    waits: list[float],
) -> None:
    """One connection, until the deadline."""
    sent = time.perf_counter()
    while sent < deadline:
        writer.write(request.head + next(words) + request.tail if request.tail else request.head)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(length_of(head))
        answered = time.perf_counter()
        waits.append(answered - sent)
        sent = answered


def length_of(head: bytes) -> int:
    """How long the body is of an answer to a request that was done."""
    if not head.startswith(b"HTTP/1.1 200 "):
        raise LoadFailed(f"the server answered {head[:2000]!r}")
    length = _LENGTH.search(head)
    if length is None:
        raise LoadFailed(f"the answer does not say how long it is: {head[:2000]!r}")
    return int(length[1])
