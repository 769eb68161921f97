"""What was sent and answered, kept apart from the database that is to be checked."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from example_project.countries import COUNTED_AS_HEADER, Cell
from example_project.people import VISITOR_HEADER, visit_of

LOAD_HEADER = "X-Load"
# In an answer: what was asked had been done before, and was not done again.
REPLAYED_HEADER = "Idempotent-Replayed"
# In an answer: its page was shown, and whether the view of it is counted, nobody knows.
COUNTED_HEADER = "X-Counted"
UNKNOWN = "unknown"
ORDERS = "orders:shop"
STOCK = "shop.Product.stock"
# How long a basket is held: as many minutes in real life.
BASKET_SECONDS = 15
# In the answer to a checkout: the product, and how many of it were sold from the basket.
SOLD_HEADER = "X-Sold"
# What the names of counters begin with that are cached in Redis.
VIEWS, LIKES = "blog.Post.views", "blog.Post.likes"
CACHED = (f"{VIEWS}:", "visits:")
SHOWN_FAILURES = 20
# In an answer: by how much the likes of the post have changed; 0 if all was so before.
LIKED_HEADER = "X-Likes"
_LIKE = re.compile(r"/blog/(\d+)/like")
# Method, path, and the status that says that it was counted; the counter.
_COUNTED = (
    ("POST", re.compile(r"/blog/(\d+)/view"), 200, "blog.Post.views:{}"),
    ("GET", re.compile(r"/blog/(\d+)/download"), 200, "downloads:post-{}"),
    ("GET", re.compile(r"/shop/(\d+)/"), 200, "visits:product-{}"),
    ("POST", re.compile(r"/shop/(\d+)/buy"), 200, ORDERS),
    ("POST", re.compile(r"/shop/baskets/([0-9a-f-]+)/checkout"), 200, ORDERS),
    ("GET", re.compile(r"/(shop|blog|live)/"), 200, "visits:{}"),
)
API = "/api/v1/"
# What counts over the API; what is adjusted there tells everybody by a signal.
_CHANGE = re.compile(rf"{API}(?:bulk|counters/(?P<key>.+))/(?:increment|decrement)", re.DOTALL)
# Answers of the API: nothing was counted as a server is away, and nobody knows.
AWAY, NOBODY_KNOWS = 503, 504


class Tally:
    """Sums by name, and failures, that many threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: Counter[str] = Counter()
        self._failures: list[str] = []

    def add(self, name: str, by: int = 1) -> None:
        """Add to one sum."""
        with self._lock:
            self._sums[name] += by

    def fail(self, what: str) -> None:
        """Note a failure; any of them makes the run fail."""
        with self._lock:
            self._sums["failures"] += 1
            if len(self._failures) < SHOWN_FAILURES:
                self._failures.append(what)

    def replace(self, sums: Mapping[str, int], failures: Iterable[str]) -> None:
        """Take over what another tally says."""
        with self._lock:
            self._sums = Counter(sums)
            self._failures = list(failures)

    def sums(self) -> Counter[str]:
        """All sums of this moment."""
        with self._lock:
            return Counter(self._sums)

    def failures(self) -> list[str]:
        """The first failures."""
        with self._lock:
            return list(self._failures)


def together(*tallies: Tally) -> Counter[str]:
    """All sums of several tallies; an adjustment can make one negative."""
    sums: Counter[str] = Counter()
    for tally in tallies:
        sums.update(tally.sums())
    return sums


def unknown(counter: str) -> str:
    """The name of the sum of changes of a counter of which nobody knows whether they are made."""
    return f"{UNKNOWN}:{counter}"


def acknowledged(sums: Mapping[str, int]) -> int:
    """How many changes of cached counters were made, as far as those who asked were told."""
    return sum(number for name, number in sums.items() if name.startswith(CACHED))


def uncertain(sums: Mapping[str, int]) -> int:
    """How many changes nobody knows anything about."""
    return sum(number for name, number in sums.items() if name.startswith(f"{UNKNOWN}:"))


def counter_of(method: str, path: str, status: int) -> str | None:
    """The counter that a request so answered has to change by one; None if there is none."""
    for counted, pattern, answer, counter in _COUNTED:
        found = pattern.fullmatch(path)
        if found and (method, status) == (counted, answer):
            return counter.format(found[1])
    return None


def changes_in(body: bytes) -> Iterator[tuple[str, int]]:
    """Counters, and by how much each was changed, as an answer of the API has it."""
    told = json.loads(body)
    if not told["replayed"]:
        for item in told.get("counters", [told]):
            yield item["key"], item["applied"]


def likes_of(post: object) -> str:
    """The counter of the likes of a post."""
    return f"{LIKES}:{post}"


class Watched:
    """A WSGI application that notes what it answered to visitors.

    The load keeps its own account of what it saw answered. Everybody else (a person with a
    browser) is noted here, at the edge of the application.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]], visitors: Tally) -> None:
        self._application = application
        self._visitors = visitors

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer as the application does."""
        if "HTTP_" + LOAD_HEADER.upper().replace("-", "_") in environ:
            return self._application(environ, start_response)
        said: list[int] = []

        def noting(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            said.append(int(status[:3]))
            if not environ["PATH_INFO"].startswith(API):
                self._note(environ, said[-1], dict(headers))
            return start_response(status, headers, exc_info)

        answer = self._application(environ, noting)
        if environ["PATH_INFO"].startswith(API):
            # Django's answers can be read more than once.
            self._note_api(environ, said[-1], b"".join(answer))
        return answer

    def _note_api(self, environ: dict[str, Any], status: int, body: bytes) -> None:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        change = _CHANGE.fullmatch(path) if method == "POST" else None
        if change and status == 200:
            for counter, by in changes_in(body):
                self._visitors.add(counter, by)
                self._note_view(counter, f" {datetime.now(UTC).date()}", by)
        elif change and change["key"] and status == NOBODY_KNOWS:
            self._visitors.add(unknown(change["key"]))
            if path.endswith("/decrement"):
                # One less, or none less.
                self._visitors.add(change["key"], -1)
            self._note_view(change["key"], f" {datetime.now(UTC).date()}", known=False)
        elif status >= 500 and status != AWAY:
            self._visitors.fail(f"{method} {path}: HTTP {status}")

    def _note_view(self, counter: str, counted_as: str, by: int = 1, *, known: bool = True) -> None:
        """Note where a view is counted: ``"DE 2026-11-23"``, or a day alone after the space."""
        kind, _, post = counter.partition(":")
        if kind == VIEWS:
            country, _, day = counted_as.partition(" ")
            self._visitors.add(Cell(int(post), country, day).name(known=known), by)

    def _note(self, environ: dict[str, Any], status: int, headers: Mapping[str, str]) -> None:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        counter = None if REPLAYED_HEADER in headers else counter_of(method, path, status)
        if counter:
            known = COUNTED_HEADER not in headers
            self._visitors.add(counter if known else unknown(counter))
            self._note_view(counter, headers.get(COUNTED_AS_HEADER, ""), known=known)
            if visitor := headers.get(VISITOR_HEADER):
                self._visitors.add(visit_of(counter, visitor, known=known))
        if sold := headers.get(SOLD_HEADER):
            product, _, quantity = sold.partition(" ")
            self._visitors.add(f"from baskets:{product}", int(quantity))
        if liked := _LIKE.fullmatch(path):
            self._visitors.add(likes_of(liked[1]), int(headers.get(LIKED_HEADER, 0)))
        if status >= 500:
            self._visitors.fail(f"{method} {path}: HTTP {status}")
