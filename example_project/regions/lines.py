"""The lines between regions: each is a relay to a server, and can be cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from example_project.regions.databases import Place

_PORT = 5432  # only a part of the socket's name
_BLOCK = 65536


class Line:
    """A socket that leads to a server. While it is cut, each connection ends at once."""

    def __init__(self, folder: Path, server: Place) -> None:
        folder.mkdir(mode=0o700)
        self.place: Place = {**server, "HOST": str(folder), "PORT": str(_PORT)}
        self._server = server
        self._is_whole = True
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._entry = socket.socket(socket.AF_UNIX)
        self._entry.bind(str(folder / f".s.PGSQL.{_PORT}"))
        self._entry.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, and take no others."""
        with self._lock:
            self._is_whole = False
            for end in self._open:
                _end(end)

    def heal(self) -> None:
        """Take connections again."""
        with self._lock:
            self._is_whole = True

    def close(self) -> None:
        """Be no more."""
        self.cut()
        _end(self._entry)
        self._entry.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._entry.accept()
                threading.Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        with near, suppress(OSError), _connected(self._server) as far:
            with self._lock:
                if not self._is_whole:
                    return
                self._open |= {near, far}
            try:
                back = threading.Thread(target=_pass, args=(far, near), daemon=True)
                back.start()
                _pass(near, far)
                back.join()
            finally:
                with self._lock:
                    self._open -= {near, far}


@contextmanager
def _connected(server: Place) -> Iterator[socket.socket]:
    host, port = server["HOST"], int(server["PORT"])
    if host.startswith("/"):
        with socket.socket(socket.AF_UNIX) as far:
            far.connect(f"{host}/.s.PGSQL.{port}")
            yield far
    else:
        with socket.create_connection((host, port)) as far:
            yield far


def _pass(source: socket.socket, sink: socket.socket) -> None:
    """Pass on what comes; the end of one is the end of both."""
    with suppress(OSError):
        while block := source.recv(_BLOCK):
            sink.sendall(block)
    _end(source)
    _end(sink)


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
