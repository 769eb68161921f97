"""A region that is reached over HTTPS: `answering` is on the other side."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event, Timer
from typing import Any
from urllib.parse import urlsplit

from django_counters.contrib.regions import labels, wire
from django_counters.contrib.regions.marks import Marks
from django_counters.contrib.regions.peer import PeerAway
from django_counters.contrib.regions.sql import Of, Page
from django_counters.contrib.regions.wire import (
    HEADER,
    answer_signature,
    is_same,
    request_signature,
)

#: How many bytes an answer has at most. A page has about 20 000 entries at most, of 1 kB.
LARGEST_ANSWER = 32 * 2**20
_STATUSES = {
    403: "it does not accept the secret",
    404: "no region is at its address",
    413: "it does not accept a request of this size",
}


@dataclass(frozen=True, slots=True)
class HttpPeer:
    """The questions of a region to another one, over HTTP. See `Peer`.

    Attributes:
        address: where the other region answers.
        sender: the region that asks.
        target: the region that is asked.
        secret: what both know.
        patience: for how many seconds it waits for the next bytes.
        deadline: for how many seconds it waits for all of them.
    """

    address: str
    sender: str
    target: str
    secret: str = field(repr=False)
    patience: float = 20
    # Less than the lease of a position, which is held while its next page is asked for.
    deadline: float = 45

    def marks(self, region: str) -> Marks:
        """How far each incarnation of a region is there."""
        return self.known(region).marks

    def homes(self) -> Mapping[str, Marks]:
        """The marks of each region that this database is home of, and has published in."""
        with _checked():
            return wire.homes_in(self._ask("homes").get("homes"))

    def page(self, of: Of, since: int) -> Page | None:
        """The next entries after a version, in whole versions; None where there are no more."""
        with _checked():
            found = self._ask("page", **of._asdict(), since=since)
            return wire.page_in(found.get("page"), since)

    def greet(self, of: Of, life: Callable[[], str]) -> Marks:
        """Let pages of a former life be of no use."""
        return labels.greet(self, of, life)

    def close(self, region: str, ended: range, life: Callable[[], str]) -> None:
        """End incarnations: pages of them are of no use."""
        labels.close(self, region, ended, life)

    def heard(self, region: str) -> datetime | None:
        """When something of a region was last copied there."""
        with _checked():
            return wire.moment_in(self._ask("heard", region=region).get("heard"))

    def known(self, region: str) -> labels.Known:
        """The labels of a region there."""
        with _checked():
            found = self._ask("known", region=region)
            return labels.Known(wire.marks_in(found.get("marks")), wire.text(found.get("life")))

    def relabel(self, region: str, changes: list[labels.Label], life: str) -> Marks:
        """Change labels, in the life of its server."""
        with _checked():
            found = self._ask("relabel", region=region, labels=changes, life=life)
            return wire.marks_in(found.get("marks"))

    def _ask(self, ask: str, **given: object) -> dict[str, Any]:
        """Send a request, and return what is answered.

        Raises:
            PeerAway: there is no answer, or it is none of the region that was asked.
            Malformed: it is not as answers are.
        """
        heading = {"from": self.sender, "to": self.target, "nonce": secrets.token_hex(16)}
        body = wire.packed({**heading, "ask": ask, **given})
        signature = request_signature(self.secret, body)
        response, answer = self._sent(body, signature)
        expected = answer_signature(self.secret, signature, answer)
        if not is_same(response.headers.get(HEADER, ""), expected):
            raise PeerAway(reason=_without_signature(response))
        found = wire.unpacked(answer)
        if "problem" in found:
            raise PeerAway(reason=wire.text(found["problem"]))
        return found

    def _sent(self, body: bytes, signature: str) -> tuple[HTTPResponse, bytes]:
        headers = {"Content-Type": "application/json", HEADER: signature}
        try:
            with self._connected() as connection:
                connection.request("POST", urlsplit(self.address).path or "/", body, headers)
                with connection.getresponse() as response:
                    return response, _read(response)
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise PeerAway(reason=f"it gives no answer over HTTP: {reason}") from error

    @contextmanager
    def _connected(self) -> Iterator[HTTPConnection]:
        """A connection that ends at the deadline, even while it waits."""
        parts = urlsplit(self.address)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.patience)
        connection.connect()
        over = Event()
        late = Timer(self.deadline, _cut, (connection.sock, over))
        late.daemon = True
        late.start()
        try:
            yield connection
            if over.is_set():
                raise HTTPException
        except (OSError, HTTPException) as error:
            if over.is_set():
                raise TimeoutError(f"it is not whole after {self.deadline:g} s") from error
            raise
        finally:
            late.cancel()
            connection.close()


def _cut(connection: socket.socket, over: Event) -> None:
    """End a connection that another thread reads."""
    over.set()
    with suppress(OSError):
        # That of TLS itself would let it read on without.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _read(response: HTTPResponse) -> bytes:
    """The body of an answer, if it is whole and not too large."""
    body = response.read(LARGEST_ANSWER + 1)
    if len(body) > LARGEST_ANSWER:
        raise HTTPException(f"it has more than {LARGEST_ANSWER} bytes")
    if response.length:
        raise HTTPException("it ends before its end")
    return body


def _without_signature(response: HTTPResponse) -> str:
    """The contents of an answer that another region may have given."""
    if 300 <= response.status < 400:
        return "its address redirects to another one"
    if response.status == 200:
        return "its answer is not signed with the secret, or not whole"
    return _STATUSES.get(response.status, f"it answers with status {response.status}")


@contextmanager
def _checked() -> Iterator[None]:
    """A block that reads an answer."""
    try:
        yield
    except wire.Malformed as error:
        raise PeerAway(reason=f"its answer is not as it should be: {error}") from error
