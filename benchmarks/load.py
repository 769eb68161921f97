"""Visitors of a server: one process that keeps a number of connections busy.

Each connection sends its next request when the last one was answered. Requests are made beforehand
and answers are hardly looked at, so that the time is the server's. Needs the standard library
alone.
"""

from __future__ import annotations

import multiprocessing
import re
import selectors
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.harness import Sample, Side

STARTS_WITHIN = 60.0
ANSWERS_WITHIN = 60.0
# Of one core: above it the process would measure itself.
MOST_BUSY = 0.5
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_END = b"\r\n\r\n"


class LoadFailed(Exception):
    """A request was not answered as it should be, or the visitors were too slow."""


class Request(NamedTuple):
    """What one connection sends again and again.

    ``tail``: what follows a number that is another one in each request; without it there is none.
    """

    head: bytes
    tail: bytes = b""


class Order(NamedTuple):
    """Send these requests, one to each connection, for so many seconds."""

    requests: Sequence[Request]
    seconds: float


class Done(NamedTuple):
    """How long each answer took, how long all took, and for how long the process was at work."""

    waits: list[float]
    seconds: float
    busy: float


class Load:
    """The visitors, as those who give them orders see them.

    Attributes:
        busiest: the greatest share of a core that they have used in a slice.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.busiest = 0.0

    def side(self, requests: Sequence[Request], seconds: float) -> Side:
        """A side in which each connection sends one of the requests, for so many seconds.

        What it raises is `LoadFailed`.
        """

        def run() -> Sample:
            self._pipe.send(Order(requests, seconds))
            done = self.answer(seconds + ANSWERS_WITHIN)
            self._watch(done.busy / done.seconds)
            return Sample(len(done.waits), done.seconds, tuple(done.waits))

        return run

    def answer(self, seconds: float) -> Done:
        """What they say, within so many seconds."""
        try:
            if not self._pipe.poll(seconds):
                raise LoadFailed(f"the visitors did not answer within {seconds:.0f} s")
            done: Done | str = self._pipe.recv()
        except (EOFError, OSError):
            raise LoadFailed("the visitors ended without a word") from None
        if isinstance(done, str):
            raise LoadFailed(done)
        return done

    def _watch(self, share: float) -> None:
        self.busiest = max(self.busiest, share)
        if share > MOST_BUSY:
            raise LoadFailed(f"the visitors took {share:.0%} of a core: they measure themselves")


@contextmanager
def load(port: int, connections: int) -> Iterator[Load]:
    """Start visitors of a port of the loopback, and end them."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, port, connections), daemon=True)
    process.start()
    theirs.close()
    try:
        visitors = Load(ours)
        visitors.answer(STARTS_WITHIN)
        yield visitors
    finally:
        ours.close()  # visitors that wait for orders go home
        process.join(2.0)
        process.terminate()


def _work(pipe: Connection, port: int, connections: int) -> None:
    """Connect, then follow orders until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who gives orders ends us
    try:
        with ExitStack() as stack:
            sockets = [stack.enter_context(_connected(port)) for _ in range(connections)]
            pipe.send(Done([], 0.0, 0.0))
            numbers = count()
            while True:
                pipe.send(follow(pipe.recv(), sockets, numbers))
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        pipe.send(f"a visitor failed: {type(error).__name__}: {error}")


def _connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), ANSWERS_WITHIN)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class _Visitor:
    """One connection, and the request that is under way on it."""

    def __init__(self, connection: socket.socket, request: Request, numbers: Iterator[int]) -> None:
        self.connection = connection
        self._request = request
        self._numbers = numbers
        self._received = b""
        self._sent = 0.0

    def send(self) -> None:
        """Send the next request."""
        head, tail = self._request
        words = head + b"%d" % next(self._numbers) + tail if tail else head
        self._received = b""
        self._sent = time.perf_counter()
        self.connection.sendall(words)

    def receive(self) -> float | None:
        """The seconds that the answer took; None where more of it has to come."""
        part = self.connection.recv(65536)
        self._received += part
        if not part:
            raise LoadFailed("the server hung up")
        if not complete(self._received):
            return None
        return time.perf_counter() - self._sent


def follow(order: Order, sockets: Sequence[socket.socket], numbers: Iterator[int]) -> Done:
    """Do what was ordered; each request that was sent is answered at the end."""
    pairs = zip(sockets, order.requests, strict=True)
    visitors = [_Visitor(connection, request, numbers) for connection, request in pairs]
    waits: list[float] = []
    working, started = time.process_time(), time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for visitor in visitors:
            selector.register(visitor.connection, selectors.EVENT_READ, visitor)
            visitor.send()
        _serve(selector, waits, len(visitors), started + order.seconds)
    return Done(waits, time.perf_counter() - started, time.process_time() - working)


def _serve(
    selector: selectors.BaseSelector, waits: list[float], under_way: int, deadline: float
) -> None:
    while under_way:
        ready = selector.select(ANSWERS_WITHIN)
        if not ready:
            raise LoadFailed(f"the server did not answer within {ANSWERS_WITHIN:.0f} s")
        for key, _ in ready:
            wait = key.data.receive()
            if wait is None:
                continue
            waits.append(wait)
            if time.perf_counter() < deadline:
                key.data.send()
            else:
                under_way -= 1


def complete(received: bytes) -> bool:
    """Whether a whole answer is there.

    Raises:
        LoadFailed: it is not the one to a request that was done, or does not say its length.
    """
    end = received.find(_END)
    if end < 0:
        return False
    if not received.startswith(b"HTTP/1.1 200 "):
        raise LoadFailed(f"the server answered {received[:2000]!r}")
    length = _LENGTH.search(received, 0, end + 2)
    if length is None:
        raise LoadFailed(f"the answer does not say how long it is: {received[:2000]!r}")
    return len(received) >= end + len(_END) + int(length[1])
