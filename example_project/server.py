"""A WSGI server with a fixed number of threads, and so of database connections."""

from __future__ import annotations

import errno
import queue
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.core.servers.basehttp import WSGIRequestHandler, WSGIServer
from django.db import connections

WORKERS = 16
HOST = "127.0.0.1"
PORTS_TRIED = 50

Application = Callable[..., Iterable[bytes]]


class Handler(WSGIRequestHandler):
    """Answers one request, silently."""

    # A browser opens connections ahead of time; they must not hold a thread for long.
    timeout = 5

    def handle(self) -> None:
        """Read and answer; a connection on which nothing was asked is just closed."""
        with suppress(TimeoutError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: failures are counted by those who asked."""


class PooledServer(WSGIServer):
    """Hands connections to threads that live as long as the server.

    Each connection is closed after one answer, so none of them keeps a thread from the others.
    """

    request_queue_size = 256

    def __init__(self, port: int, application: Application, workers: int = WORKERS) -> None:
        super().__init__((HOST, port), Handler)
        self.set_app(application)
        self._accepted: queue.SimpleQueue[tuple[Any, Any] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"http-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def server_bind(self) -> None:
        """Bind without asking the name service who we are: that can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Queue a connection for the next free thread."""
        self._accepted.put((request, client_address))

    def finish(self) -> None:
        """Answer what was accepted, then end the threads and close their database connections."""
        for _ in self._threads:
            self._accepted.put(None)
        for thread in self._threads:
            thread.join()
        self.server_close()

    def _work(self) -> None:
        try:
            while (accepted := self._accepted.get()) is not None:
                self._answer(*accepted)
        finally:
            connections.close_all()

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)


@contextmanager
def serving(application: Application, port: int) -> Iterator[int]:
    """Serve on ``port`` or the next free one, which is given; answer everything before the end."""
    server = _bound(application, port)
    acceptor = threading.Thread(target=server.serve_forever, args=(0.05,), name="accept")
    acceptor.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        acceptor.join()
        server.finish()


def _bound(application: Application, port: int) -> PooledServer:
    for candidate in range(port, min(port + PORTS_TRIED, 65536)) if port else ():
        if _is_free(candidate):
            try:
                return PooledServer(candidate, application)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
    return PooledServer(0, application)


def _is_free(port: int) -> bool:
    """Whether nobody answers there; some systems let two servers have one port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) != 0
