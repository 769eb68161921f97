"""The peers of ``COUNTERS_REGIONS``."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event, Timer
from typing import Any
from urllib.parse import urlsplit

from django.db.models import QuerySet

from django_counters.contrib.regions import wire
from django_counters.contrib.regions.declared import Regions, is_address, region_secrets
from django_counters.contrib.regions.marks import (
    IncarnationMark,
    KnownRegion,
    Label,
    Marks,
    Peer,
    PeerAway,
    marks_of,
)
from django_counters.contrib.regions.sql import (
    CLOSED,
    SOURCES,
    EntryPage,
    Incarnation,
    source_of,
    store_of,
)
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position
from django_counters.tables import CounterPosition

# In a database that this process can reach.


@dataclass(frozen=True, slots=True)
class DatabasePeer(Peer):
    """A peer in a database. See `Peer`.

    Attributes:
        alias: the name of the database in ``DATABASES``.
    """

    alias: str

    def marks(self, region: str) -> Marks:
        """Return the mark of each incarnation of a region there."""
        return marks_of(region, self.alias)

    def homes(self) -> Mapping[str, Marks]:
        """Return the marks of each region that has published in this database as its home.

        In a copy, the position is followed by "/" and the clock that was read with it.
        """
        homes: dict[str, Marks] = {}
        for row in self._rows(source__startswith=SOURCES).exclude(position__contains="/"):
            at = IncarnationMark.of(Position(row.position, row.timeline))
            homes.setdefault(row.source.removeprefix(SOURCES), {})[int(row.part)] = at
        # A copy's position that never moved looks the same, but has seen no clock.
        return {name: marks for name, marks in homes.items() if any(m.seen for m in marks.values())}

    def page(self, of: Incarnation, since: int) -> EntryPage | None:
        """Return the next entries after a version, in whole versions; None if there are none."""
        return store_of(self.alias).page(of, since)

    def heard(self, region: str) -> datetime | None:
        """Return when a region was last copied there."""
        moved = self._rows(source=source_of(region)).exclude(position="").order_by("-moved_at")
        return moved.values_list("moved_at", flat=True).first()

    def known(self, region: str) -> KnownRegion:
        """Return the labels of a region there."""
        return KnownRegion(marks_of(region, self.alias), store_of(self.alias).life())

    def relabel(self, region: str, labels: list[Label], life: str) -> Marks:
        """Change labels, if the server there is still in this life.

        Locks the rows, so that no page moves them before the marks are read.
        """
        store, positions = store_of(self.alias), registry.positions(self.alias)
        with store.transaction():
            if store.life() != life:
                raise PeerAway(reason="its server was started at this moment")
            for number, before, after in labels:
                ends = after == CLOSED or before != CLOSED
                if not ends or not positions.relabel(source_of(region), str(number), before, after):
                    raise PeerAway(reason="another process greets it at this moment")
            return marks_of(region, self.alias)

    def _rows(self, **these: str) -> QuerySet[CounterPosition]:
        return CounterPosition._base_manager.using(self.alias).filter(**these)


# Over HTTPS. The other side is `answering`.

#: The most bytes of an answer. A page has at most about 20 000 entries of 1 kB.
LARGEST_ANSWER = 32 * 2**20
_STATUSES = {
    403: "it does not accept the secret",
    404: "no region is at its address",
    413: "it does not accept a request of this size",
}


@dataclass(frozen=True, slots=True)
class HttpPeer(Peer):
    """A peer over HTTP. See `Peer`.

    Attributes:
        address: the other region's address.
        sender: this region.
        target: the other region.
        secret: the shared secret.
        patience: seconds to wait for the next bytes.
        deadline: seconds to wait for the whole answer.
    """

    address: str
    sender: str
    target: str
    secret: str = field(repr=False)
    patience: float = 20
    # Less than the lease of a position, which is locked while its next page is requested.
    deadline: float = 45

    def homes(self) -> Mapping[str, Marks]:
        """Return the marks of each region that has published in this database as its home."""
        with _checked():
            return wire.homes_in(self._ask("homes").get("homes"))

    def page(self, of: Incarnation, since: int) -> EntryPage | None:
        """Return the next entries after a version, in whole versions; None if there are none."""
        with _checked():
            answer = self._ask("page", **of._asdict(), since=since)
            return wire.page_in(answer.get("page"), since)

    def heard(self, region: str) -> datetime | None:
        """Return when a region was last copied there."""
        with _checked():
            return wire.moment_in(self._ask("heard", region=region).get("heard"))

    def known(self, region: str) -> KnownRegion:
        """Return the labels of a region there."""
        with _checked():
            answer = self._ask("known", region=region)
            return KnownRegion(wire.marks_in(answer.get("marks")), wire.text(answer.get("life")))

    def relabel(self, region: str, labels: list[Label], life: str) -> Marks:
        """Change labels, if the server there is still in this life."""
        with _checked():
            answer = self._ask("relabel", region=region, labels=labels, life=life)
            return wire.marks_in(answer.get("marks"))

    def _ask(self, action: str, **params: object) -> dict[str, Any]:
        """Send a request, and return its answer.

        Raises:
            PeerAway: the region doesn't answer, or another one does.
            Malformed: the answer has another form.
        """
        heading = {"from": self.sender, "to": self.target, "nonce": secrets.token_hex(16)}
        body = wire.packed({**heading, "ask": action, **params})
        signature = wire.request_signature(self.secret, body)
        response, answer = self._sent(body, signature)
        expected = wire.answer_signature(self.secret, signature, answer)
        if not wire.is_same(response.headers.get(wire.HEADER, ""), expected):
            raise PeerAway(reason=_without_signature(response))
        contents = wire.unpacked(answer)
        if "problem" in contents:
            raise PeerAway(reason=wire.text(contents["problem"]))
        return contents

    def _sent(self, body: bytes, signature: str) -> tuple[HTTPResponse, bytes]:
        headers = {"Content-Type": "application/json", wire.HEADER: signature}
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
        """Open a connection that ends at the deadline, even while it waits."""
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
        # TLS's own shutdown would let the other thread read on, unencrypted.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _read(response: HTTPResponse) -> bytes:
    """Return the body of an answer, if it is complete and not too large."""
    body = response.read(LARGEST_ANSWER + 1)
    if len(body) > LARGEST_ANSWER:
        raise HTTPException(f"it has more than {LARGEST_ANSWER} bytes")
    if response.length:
        raise HTTPException("it ends too early")
    return body


def _without_signature(response: HTTPResponse) -> str:
    """Return the reason for an answer without a valid signature."""
    if 300 <= response.status < 400:
        return "its address redirects to another one"
    if response.status == 200:
        return "its answer is not signed with the secret, or not whole"
    return _STATUSES.get(response.status, f"it answers with status {response.status}")


@contextmanager
def _checked() -> Iterator[None]:
    """A block that reads an answer. `Malformed` becomes `PeerAway`."""
    try:
        yield
    except wire.Malformed as error:
        raise PeerAway(reason=f"its answer is invalid: {error}") from error


# All of them.


def peers_of(declared: Regions) -> Mapping[str, Peer]:
    """Return {name: peer} for the other regions."""
    return {name: _peer(declared, name, place) for name, place in declared.peers.items()}


def _peer(declared: Regions, name: str, place: str) -> Peer:
    if not is_address(place):
        return DatabasePeer(place)
    return HttpPeer(place, declared.own, name, region_secrets()[0])
