"""The API, compared with views of REST framework that do the one thing and nothing else.

Both are served by the same gunicorn in the same rounds, to visitors who show a JSON Web Token that
needs no query, and each of whom has a counter of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

import jwt
from django.db.models import Sum

from benchmarks import settings as served_settings
from benchmarks.cases.cached import client, prefix
from benchmarks.harness import Pair, Work, adds_up, lasting, remain
from benchmarks.load import Request, load
from benchmarks.models import NaiveCounter
from benchmarks.serving import served
from django_counters.models import Counter

CONNECTIONS = 16
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

    Without a ``namespace`` keys have the prefix in Redis; with ``once`` each request has an
    Idempotency-Key of its own.
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
        return [self._request(key, method, visitor) for visitor, key in enumerate(keys, 1)]

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
    who = {"jti": str(visitor), "user_id": str(visitor), "exp": int(time.time()) + DAY}
    claims = {"token_type": "access", **who}
    return jwt.encode(claims, served_settings.SECRET_KEY, algorithm="HS256")


@contextmanager
def asked(subject: Way, reference: Way, seconds: float) -> Iterator[Pair]:
    """Visitors who count, or look at what is counted: those of paths that end with a key."""
    mine, theirs = subject.keys(), reference.keys()
    stored = partial(subject.stored, mine), partial(reference.stored, theirs)
    method, verify = "POST", adds_up(*stored)
    if subject.path.endswith("{}"):
        Counter.objects.increment_many(dict.fromkeys(mine, 1))
        with client() as server:
            server.mset(dict.fromkeys(theirs, 1))
        method, verify = "GET", remain(*((one, CONNECTIONS) for one in stored))
    with served() as port, load(port) as side:
        ways = (subject.requests(mine, method), reference.requests(theirs, method))
        asks, compared = (side(requests, seconds) for requests in ways)
        yield Pair(asks, compared, verify)


CACHED = Way("/api/v1/counters/{}/increment", "hits")
EXACT = Way("/api/v1/counters/{}/increment", "sales")

CASES: Mapping[str, Work] = {
    f"rest-{name}": lasting(partial(asked, subject, reference))
    for name, subject, reference in (
        ("increment", CACHED, Way("/bare/{}/increment", stored=bare_keys)),
        ("read", Way("/api/v1/counters/{}", "hits"), Way("/bare/{}", stored=bare_keys)),
        ("exact", EXACT, Way("/bare/{}/upsert", stored=bare_rows)),
        ("once-cached", Way(CACHED.path, "hits", once=True), CACHED),
        ("once-exact", Way(EXACT.path, "sales", once=True), EXACT),
        ("limit-redis", Way("/redis/{}/increment", "hits"), CACHED),
    )
}
