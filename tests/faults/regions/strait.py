"""A network between regions that delays, cuts in the middle of what is said, and is closed."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter as Sums
from contextlib import suppress

from psycopg.conninfo import conninfo_to_dict

# How often each of them happens to a part of what is said, while the network is rough.
DELAYED, CUT = 0.02, 0.004
# Seconds.
LONGEST_DELAY = 0.6


class Strait:
    """What others reach one PostgreSQL through. Each connection is two threads.

    Attributes:
        rough: whether parts of what is said are delayed and cut by chance.
        did: how often what happened: ``delayed``, ``cut``, ``refused``, ``closed``.
    """

    def __init__(self, url: str, chance: random.Random) -> None:
        told = conninfo_to_dict(url)
        self._server = f"{told['host']}/.s.PGSQL.{told['port']}"
        self._chance = chance
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._closed = False
        self._open: set[socket.socket] = set()
        self.rough = False
        self.did: Sums[str] = Sums()
        port = self._listener.getsockname()[1]
        self.url = f"postgres://{told['user']}@127.0.0.1:{port}/{told['dbname']}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Let nobody through, and end what is being said."""
        self._closed = True
        self.did["closed"] += 1
        self.cut()

    def open(self) -> None:
        """Let everybody through."""
        self._closed = False

    def cut(self) -> None:
        """End the present connections, wherever they are."""
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Refuse new connections and end the present ones."""
        self._closed = True
        # A thread that waits in accept() would keep the socket open.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            ends = {client, server}
            # Before it is looked whether this is closed: nobody slips through in between.
            self._open |= ends
            if self._closed:
                self.did["refused"] += 1
            else:
                server.connect(self._server)
                back = threading.Thread(target=self._pass, args=(server, client), daemon=True)
                back.start()
                self._pass(client, server)
                back.join()
        self._open -= ends

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        """Pass on what one end says, until an end goes or the chance comes."""
        with suppress(OSError):
            while said := one.recv(1 << 16):
                drawn = self._chance.random() if self.rough else 1.0
                if drawn < CUT:
                    self.did["cut"] += 1
                    other.sendall(said[: len(said) // 2])
                    break
                if drawn < CUT + DELAYED:
                    self.did["delayed"] += 1
                    time.sleep(self._chance.uniform(0, LONGEST_DELAY))
                other.sendall(said)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
