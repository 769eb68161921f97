"""A region that does not answer, or not as it should."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from django_counters.contrib.regions import peers as client
from django_counters.contrib.regions import wire
from django_counters.contrib.regions.errors import RegionAway
from django_counters.contrib.regions.marks import PeerAway
from tests.regions.between import eu_asks
from tests.regions.regions import EU, US, _regional  # noqa: F401 - a fixture
from tests.regions.serving import SECRET, over_http, serving

databases = pytest.mark.django_db(databases=["default", "other"])
Behaviour = Callable[[socket.socket, Event], None]


@contextmanager
def peer_that(behaves: Behaviour) -> Iterator[str]:
    """A server of one connection; where it is."""
    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=partial(_serve_one, server, behaves, over))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            over.set()
            thread.join()


def _serve_one(server: socket.socket, behaves: Behaviour, over: Event) -> None:
    connection, _ = server.accept()
    with connection, suppress(OSError):
        asked = b""
        # Who leaves something unread resets the connection.
        while not asked.endswith(b"}"):
            asked += connection.recv(2**16)
        behaves(connection, over)


def hangs(connection: socket.socket, over: Event) -> None:
    over.wait(30)


def hangs_within_its_answer(connection: socket.socket, over: Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    over.wait(30)


def drips(connection: socket.socket, over: Event) -> None:
    """Never silent for long, and not done before anybody's patience ends."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    for _ in range(200):
        if over.wait(0.05):
            return
        connection.sendall(b"x")


def cuts(connection: socket.socket, over: Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")


def cuts_a_chunk(connection: socket.socket, over: Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{")


def babbles(connection: socket.socket, over: Event) -> None:
    connection.sendall(b"what?\r\n\r\n")


def says_nothing(connection: socket.socket, over: Event) -> None:
    """Closes the connection."""


@pytest.mark.parametrize(
    ("behaves", "reason"),
    [
        (hangs, "timed out"),
        (hangs_within_its_answer, "timed out"),
        (drips, "not whole after 1 s"),
        (cuts, "ends too early"),
        (cuts_a_chunk, "IncompleteRead"),
        (babbles, "what"),
        (says_nothing, "without response"),
    ],
)
@pytest.mark.rare
def test_it_is_said_what_became_of_an_answer(behaves: Behaviour, reason: str) -> None:
    patience = 10 if behaves is drips else 0.5
    with (
        peer_that(behaves) as address,
        pytest.raises(PeerAway, match=f"no answer over HTTP: .*{reason}"),
    ):
        eu_asks(address, patience=patience, deadline=1 if behaves is drips else 30).marks("eu")


def answers(status: str, *headers: tuple[str, str], asked: list[str]) -> Any:
    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        asked.append(environ["PATH_INFO"])
        environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        start(status, [*headers, ("Content-Length", "2")])
        return [b"{}"]

    return answer


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("200 OK", "is not signed"),
        ("302 Found", "redirects"),
        ("307 Temporary Redirect", "redirects"),
        ("403 Forbidden", "does not accept the secret"),
        ("404 Not Found", "no region is at its address"),
        ("413 Too Large", "a request of this size"),
        ("502 Bad Gateway", "status 502"),
    ],
)
@databases
def test_an_answer_of_somebody_else_says_what_it_can(status: str, reason: str) -> None:
    """And nobody is followed to another address."""
    asked: list[str] = []
    application = answers(status, ("Location", "/elsewhere"), asked=asked)
    with serving(application) as address, pytest.raises(PeerAway, match=reason):
        eu_asks(address).marks("eu")
    assert asked == ["/us/"]


@databases
def test_an_answer_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    US.count("likes:x")
    with over_http() as address:
        US.publish()
        size = len(wire.packed({"homes": wire.packed({}).decode()}))
        monkeypatch.setattr(client, "LARGEST_ANSWER", size)
        with pytest.raises(PeerAway, match=f"more than {size} bytes"):
            eu_asks(address).homes()


@databases
def test_a_region_that_is_away_is_named_and_the_others_are_copied() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}/"
    US.count("likes:x", 4)
    US.publish()
    peers = {"ap": nobody, "us": "other"}
    secrets = {"COUNTERS_REGION_SECRETS": [SECRET]}
    with override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS=peers, **secrets):
        from django_counters.contrib.regions.fencing import fence
        from django_counters.contrib.regions.publishing import publish
        from django_counters.contrib.regions.pulling import pull

        found = pull()
        assert "no answer over HTTP: " in found["ap"].problem
        assert (found["us"].problem, found["us"].entries) == ("", 1)
        for call in (publish, fence):
            with pytest.raises(RegionAway, match=r"^ap can't answer .*: it gives no answer"):
                call()


PARTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.sampled_from(["\ud800", "2026-01-01", "2026-01-01T00:00:00+00:00", "entries", "clock"]),
    lambda part: (
        st.lists(part, max_size=4)
        | st.dictionaries(st.sampled_from(["entries", "clock", "life"]), part)
    ),
    max_leaves=6,
)


@given(PARTS)
def test_whatever_is_answered_is_understood_or_refused(part: Any) -> None:
    for read in (
        wire.marks_in,
        wire.homes_in,
        wire.labels_in,
        wire.moment_in,
        partial(wire.page_in, since=3),
    ):
        with suppress(wire.Malformed):
            read(part)


@pytest.mark.parametrize(
    "wrong",
    [
        {"entries": []},
        {"entries": [["likes:x", 1, 3]]},
        {"entries": [["likes:x", 1, 9]]},
        {"entries": [[7, 1, 4]]},
        {"entries": [["likes:x", 2**63, 4]]},
        {"entries": [["likes:x", "1", 4]]},
        {"entries": [["likes:x", 1]]},
        {"clock": "8"},
        {"life": None},
    ],
    ids=str,
)
def test_a_page_that_leads_nowhere_is_refused(wrong: dict[str, Any]) -> None:
    """Of versions that were asked for before, there would be no end."""
    right = {"entries": [["likes:x", -(2**63), 4]], "clock": 8, "life": "a life"}
    assert wire.page_in(right, 3) == ([("likes:x", -(2**63), 4)], 8, "a life")
    with pytest.raises(wire.Malformed):
        wire.page_in({**right, **wrong}, 3)
