"""The API, compared with views of REST framework that do the one thing and nothing else.

Both are served by the same gunicorn in the same rounds, to visitors who show a JSON Web Token that
needs no query, and each of whom has a counter of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

import jwt
from django.db.models import Sum

from benchmarks import settings as served_settings
from benchmarks.cases.cached import client, prefix
from benchmarks.harness import Case, Pair, at_least, expect
from benchmarks.load import Request, load
from benchmarks.models import NaiveCounter
from benchmarks.serving import served
from django_counters.models import Counter

CONNECTIONS = 16
SERVING = 0.5  # seconds of one slice
BRIEF = 0.2  # the same where time is short
DAY = 86_400
BODY = b'{"by": 1}'
_runs = count()

Stored = Callable[[Sequence[str]], int]


def counters(keys: Sequence[str]) -> int:
    """What our counters have."""
    return sum(Counter.objects.values_of(keys).values())


def bare_keys(keys: Sequence[str]) -> int:
    """What keys of Redis have."""
    with client() as server:
        return sum(int(value or 0) for value in server.mget(keys))


def bare_rows(keys: Sequence[str]) -> int:
    """What rows have that were counted without the library."""
    found = NaiveCounter.objects.filter(key__in=keys).aggregate(sum=Sum("value"))
    return int(found["sum"] or 0)


@dataclass(frozen=True)
class Way:
    """How one side asks, of what, and where that is stored.

    Attributes:
        path: with the key in it.
        namespace: what stands before the colon of the keys; "" for the prefix in Redis.
        stored: the sum of what keys have.
        once: each request has an Idempotency-Key of its own.
    """

    path: str
    namespace: str = ""
    stored: Stored = counters
    once: bool = False

    def keys(self) -> list[str]:
        """A key for each connection, which nobody has used."""
        run = next(_runs)
        return [f"{self.namespace or prefix()}:{run}-{number}" for number in range(CONNECTIONS)]

    def requests(self, keys: Sequence[str], method: str) -> list[Request]:
        """The request of each connection; another user sends it."""
        return [
            self._request(key, method, visitor)
            for key, visitor in zip(keys, range(1, CONNECTIONS + 1), strict=True)
        ]

    def _request(self, key: str, method: str, visitor: int) -> Request:
        lines = [
            f"{method} {self.path.format(key)} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {_token(visitor)}",
        ]
        if method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {len(BODY)}"]
        head = "\r\n".join(lines).encode()
        end = b"\r\n\r\n" + (BODY if method == "POST" else b"")
        if self.once:
            return Request(head + b"\r\nIdempotency-Key: ", end)
        return Request(head + end)


def _token(visitor: int) -> str:
    """What a visitor shows. The site believes it without looking anybody up."""
    claims = {
        "token_type": "access",
        "jti": str(visitor),
        "user_id": str(visitor),
        "exp": int(time.time()) + DAY,
    }
    return jwt.encode(claims, served_settings.SECRET_KEY, algorithm="HS256")


@contextmanager
def counting(subject: Way, reference: Way, seconds: float = SERVING) -> Iterator[Pair]:
    """Visitors who count."""
    mine, theirs = subject.keys(), reference.keys()

    def verify(counted: int, compared: int) -> None:
        expect(subject.path, subject.stored(mine), counted)
        expect(reference.path, reference.stored(theirs), compared)

    with served() as port, load(port, CONNECTIONS) as visitors:
        yield Pair(
            visitors.side(subject.requests(mine, "POST"), seconds),
            visitors.side(reference.requests(theirs, "POST"), seconds),
            verify,
        )


@contextmanager
def reading(subject: Way, reference: Way, seconds: float = SERVING) -> Iterator[Pair]:
    """Visitors who look at what is counted."""
    mine, theirs = subject.keys(), reference.keys()
    Counter.objects.increment_many(dict.fromkeys(mine, 1))
    with client() as server:
        server.mset(dict.fromkeys(theirs, 1))

    def verify(*_: int) -> None:
        expect(subject.path, subject.stored(mine), CONNECTIONS)
        expect(reference.path, reference.stored(theirs), CONNECTIONS)

    with served() as port, load(port, CONNECTIONS) as visitors:
        yield Pair(
            visitors.side(subject.requests(mine, "GET"), seconds),
            visitors.side(reference.requests(theirs, "GET"), seconds),
            verify,
        )


CACHED = Way("/api/v1/counters/{}/increment", "hits")
EXACT = Way("/api/v1/counters/{}/increment", "sales")

ROWS: dict[str, tuple[Way, Way]] = {
    "increment": (CACHED, Way("/bare/{}/increment", stored=bare_keys)),
    "exact": (EXACT, Way("/bare/{}/upsert", stored=bare_rows)),
    "once-cached": (Way(CACHED.path, "hits", once=True), CACHED),
    "once-exact": (Way(EXACT.path, "sales", once=True), EXACT),
    "limit-redis": (Way("/redis/{}/increment", "hits"), CACHED),
    "limit-database": (Way("/database/{}/increment", "sales"), EXACT),
}
READ = (Way("/api/v1/counters/{}", "hits"), Way("/bare/{}", stored=bare_keys))


def _case(name: str, subject: str, reference: str, target: float | None = None) -> Case:
    visits = partial(reading, *READ) if name == "read" else partial(counting, *ROWS[name])
    return Case(
        f"rest-{name}",
        subject,
        reference,
        None if target is None else at_least(target),
        visits,
        slices=2,
        less=partial(visits, seconds=BRIEF),
    )


CASES: Sequence[Case] = (
    _case(
        "increment",
        f"POST of an increment, cached, {CONNECTIONS} connections",
        "a view of REST framework with an INCRBY",
        0.85,
    ),
    _case("read", "GET of a cached value", "a view with a GET of Redis", 0.85),
    _case("exact", "POST of an increment, exact", "a view with an upsert", 0.8),
    _case("once-cached", "cached, with an Idempotency-Key", "the same without"),
    _case("once-exact", "exact, with an Idempotency-Key", "the same without"),
    _case("limit-redis", "cached, with a throttle in Redis", "the same without"),
    _case("limit-database", "exact, with a throttle in the database", "the same without"),
)
