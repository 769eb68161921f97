"""Who stands between two regions, and sees all that they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from http.client import HTTPConnection
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django_counters.contrib.regions.peers import HttpPeer
from django_counters.contrib.regions.wire import HEADER, packed, request_signature
from tests.regions.serving import SECRET, Application

_IN_ENVIRON = f"HTTP_{HEADER.upper().replace('-', '_')}"


class Said(NamedTuple):
    """A request or an answer, and how it was signed."""

    body: bytes
    signature: str


class Between:
    """Keeps what is said, and lets some of it be said otherwise.

    Attributes:
        requests: what was asked.
        answers: what was answered.
        instead: what is said instead of an answer.
    """

    def __init__(self) -> None:
        self.requests: list[Said] = []
        self.answers: list[Said] = []
        self.instead: Callable[[Said], Said] = lambda said: said

    def __call__(self, served: Application) -> Application:
        """Stand before an application."""

        def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
            environ["wsgi.input"] = BytesIO(body)
            self.requests.append(Said(body, environ.get(_IN_ENVIRON, "")))
            started: list[Any] = []
            found = b"".join(served(environ, lambda *given: started.extend(given)))
            status, headers = started[:2]
            kept = [(name, value) for name, value in headers if name == "Content-Type"]
            said = Said(found, dict(headers).get(HEADER, ""))
            self.answers.append(said)
            said = self.instead(said)
            start(
                status, [*kept, (HEADER, said.signature), ("Content-Length", str(len(said.body)))]
            )
            return [said.body]

        return answer


class Answered(NamedTuple):
    """What came back."""

    status: int
    body: bytes
    signature: str | None


def send(address: str, said: Said, method: str = "POST") -> Answered:
    """Send a request as it is."""
    parts = urlsplit(address)
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=30)) as connection:
        headers = {HEADER: said.signature} if said.signature else {}
        connection.request(method, parts.path, said.body, headers)
        response = connection.getresponse()
        return Answered(response.status, response.read(), response.headers[HEADER])


def signed(message: dict[str, Any], secret: str = SECRET) -> Said:
    """A request that knows the secret."""
    body = packed(message)
    return Said(body, request_signature(secret, body))


def eu_asks(address: str, secret: str = SECRET, **options: Any) -> HttpPeer:
    """The region us, as eu reaches it."""
    return HttpPeer(f"{address}us/", "eu", "us", secret, **options)
