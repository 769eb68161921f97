"""What was sent and answered, kept apart from the database that is to be checked."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

LOAD_HEADER = "X-Load"
SHOWN_FAILURES = 20
_POST = re.compile(r"/blog/(\d+)/\Z")
_PRODUCT = re.compile(r"/shop/(\d+)/\Z")
_PAGES = {"/shop/": "visits:shop", "/blog/": "visits:blog", "/live/": "visits:live"}


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


def counter_of(path: str) -> str | None:
    """The counter that a GET of ``path`` has to change by one; None if there is none."""
    if found := _POST.match(path):
        return f"blog.Post.views:{found[1]}"
    if found := _PRODUCT.match(path):
        return f"visits:product-{found[1]}"
    return _PAGES.get(path)


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

        def noting(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            self._note(environ, int(status[:3]))
            return start_response(status, headers, exc_info)

        return self._application(environ, noting)

    def _note(self, environ: dict[str, Any], status: int) -> None:
        if "HTTP_" + LOAD_HEADER.upper().replace("-", "_") in environ:
            return
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        counter = counter_of(path)
        if method == "GET" and status == 200 and counter:
            self._visitors.add(counter)
        if status >= 500:
            self._visitors.fail(f"{method} {path}: HTTP {status}")
