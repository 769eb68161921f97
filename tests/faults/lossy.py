"""A network between those who count and Redis that drops, delays and cuts replies by chance."""

from __future__ import annotations

import random
import select
import socket
import time
from collections import Counter as Sums
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.redis.proxy import Fault, Proxy

# How often each of them happens.
FAULTS: dict[Fault, int] = {
    **dict.fromkeys(("swallow", "close", "reset", "half", "unsent"), 2),
    "hold": 3,
}
RATE = 0.05
# Seconds: some of those who wait go on, and some have given up before.
LONGEST_DELAY = 1.0


class Lossy(Proxy):
    """Draws a fault for some of the requests; a reply of any length gets through the others.

    Attributes:
        did: how often each fault happened.
    """

    def __init__(self, url: str, chance: random.Random) -> None:
        self._chance = chance
        self.did: Sums[str] = Sums()
        super().__init__(url)

    def _serve(self, client: socket.socket) -> None:
        with client, self._connect() as server, suppress(OSError):
            self._open += [client, server]
            fault: Fault | None = None
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if client in ready:
                    fault = self._drawn()
                    if not self._forward(fault, client, server):
                        return
                elif not self._back(fault, client, server):
                    return

    def _drawn(self) -> Fault | None:
        if self._chance.random() > RATE:
            return None
        (fault,) = self._chance.choices(list(FAULTS), list(FAULTS.values()))
        self.did[fault] += 1
        return fault

    def _forward(self, fault: Fault | None, client: socket.socket, server: socket.socket) -> bool:
        request = client.recv(1 << 20)
        if fault != "unsent" and request:
            server.sendall(request)
        return bool(request) and fault != "unsent"

    def _back(self, fault: Fault | None, client: socket.socket, server: socket.socket) -> bool:
        reply = server.recv(1 << 20)
        if fault == "hold":
            time.sleep(self._chance.uniform(0, LONGEST_DELAY))
            fault = None
        return bool(reply) and self._answer(fault, reply, client)


@contextmanager
def lossy(url: str, chance: random.Random) -> Iterator[Lossy]:
    """A network before a Redis."""
    proxy = Lossy(url, chance)
    try:
        yield proxy
    finally:
        proxy.stop()
