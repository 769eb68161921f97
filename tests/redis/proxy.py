"""A server between a client and Redis that loses what it is told to lose."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

Fault = Literal["swallow", "close", "reset", "half", "hold", "unsent", "error"]


class Proxy:
    """Passes everything on, until ``fault`` is set.

    Then the next requests in which ``marker`` stands are dealt with as ``fault`` says, ``times``
    of them:

    swallow: Redis executes it, the reply is thrown away, the connection stays.
    close, reset: Redis executes it, then the connection ends, orderly or not.
    half: Redis executes it, half of the reply arrives, then the connection ends.
    hold: Redis executes it, the reply waits for ``release``.
    error: Redis executes it, the reply is an error of the proxy.
    unsent: the connection ends and Redis never sees it.
    """

    def __init__(self, url: str) -> None:
        self._upstream = urlsplit(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.marker = b"EVAL"
        self.fault: Fault | None = None
        self.times = 0
        self.met = threading.Event()
        self.release = threading.Event()
        self.connections = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, fault: Fault, times: int = 1, marker: bytes = b"EVAL") -> None:
        """Deal with the next requests like this."""
        self.marker, self.fault, self.times = marker, fault, times

    @property
    def url(self) -> str:
        """The address of the proxy, with what the server behind it wants to know."""
        parts = self._upstream
        login = f":{quote(unquote(parts.password))}@" if parts.password else ""
        path = "/0" if parts.scheme == "unix" else parts.path
        return f"redis://{login}127.0.0.1:{self.port}{path}"

    def stop(self) -> None:
        """Refuse new connections and end the present ones."""
        # A thread that waits in accept() would keep the socket open.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End the present connections."""
        while self._open:
            with suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _connect(self) -> socket.socket:
        if self._upstream.scheme == "unix":
            server = socket.socket(socket.AF_UNIX)
            server.connect(unquote(self._upstream.path))
            return server
        return socket.create_connection(
            (self._upstream.hostname or "localhost", self._upstream.port or 6379)
        )

    def _serve(self, client: socket.socket) -> None:
        with client, self._connect() as server, suppress(OSError):
            self._open += [client, server]
            while request := client.recv(1 << 20):
                if not self._pass(request, client, server):
                    break

    def _pass(self, request: bytes, client: socket.socket, server: socket.socket) -> bool:
        """One request and its reply; false if the connection ends."""
        fault = None
        if self.times and self.marker in request:
            self.times -= 1
            fault = self.fault
        if fault == "unsent":
            return False
        server.sendall(request)
        reply = server.recv(1 << 20)
        self.met.set()
        return bool(reply) and self._answer(fault, reply, client)

    def _answer(self, fault: Fault | None, reply: bytes, client: socket.socket) -> bool:
        if fault == "swallow":
            return True
        if fault == "hold":
            self.release.wait(30)
        if fault == "error":
            reply = b"-upstream failure\r\n"
        if fault == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if fault == "half":
            client.sendall(reply[: len(reply) // 2])
        if fault in ("close", "reset", "half"):
            return False
        client.sendall(reply)
        return True


@contextmanager
def proxied() -> Iterator[Proxy]:
    """A proxy before the Redis of this run."""
    proxy = Proxy(os.environ["REDIS_URL"])
    try:
        yield proxy
    finally:
        proxy.release.set()
        proxy.stop()
