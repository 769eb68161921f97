"""What clients are told of limits: RateLimit-Policy, RateLimit and Retry-After.

They are those of draft-ietf-httpapi-ratelimit-headers-11. The draft still changes; only this file
knows it.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any, NamedTuple
from urllib.parse import quote

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from django_counters.contrib.limits.algorithms import Taken
from django_counters.contrib.limits.limit import Limit

# A string of a structured field has no other characters.
_PLAIN = "".join(set(string.printable) - set(string.whitespace) - set('"\\%'))
_ATTRIBUTE = "_counters_limit"


class Looked(NamedTuple):
    """A limit, and its state for a request."""

    limit: Limit
    taken: Taken

    def nearness(self) -> tuple[bool, float, float]:
        """A sort key. First comes the limit that refuses, then the one with the least left."""
        limit, taken = self
        return taken.allowed, taken.remaining / limit.capacity, -taken.more

    def fields(self) -> Iterator[tuple[str, str]]:
        """The headers."""
        limit, taken = self
        name = f'"{quote(limit.name, _PLAIN, errors="replace")}"'
        rate = limit.parsed
        yield "RateLimit-Policy", f"{name};q={rate.number};w={ceil(rate.seconds)}"
        yield "RateLimit", f"{name};r={taken.remaining};t={ceil(taken.more)}"


def remember(request: HttpRequest, limit: Limit, taken: Taken) -> None:
    """Let the answer to a request tell of the nearest of its limits. Uncounted limits have no state
    to tell.

    A request of REST framework has that of Django within.
    """
    if not taken.counted:
        return
    plain, looked = getattr(request, "_request", request), Looked(limit, taken)
    known: Looked | None = getattr(plain, _ATTRIBUTE, None)
    nearest = looked if known is None else min(known, looked, key=Looked.nearness)
    setattr(plain, _ATTRIBUTE, nearest)


def tell(request: HttpRequest, response: HttpResponseBase) -> None:
    """Add the headers to a finished response, which says what caches may do with it."""
    nearest: Looked | None = getattr(getattr(request, "_request", request), _ATTRIBUTE, None)
    if nearest is not None and not _is_shared(response):
        for name, value in nearest.fields():
            response.headers[name] = value


@sync_and_async_middleware
def tell_limits(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """A middleware that adds the headers of a limit to the answers that Django makes of errors.

    They are made outside of the view: of `Http404`, of `PermissionDenied`, of any error.
    """

    async def awaited(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await get_response(request)
        tell(request, response)
        return response

    def called(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = get_response(request)
        tell(request, response)
        return response

    return awaited if iscoroutinefunction(get_response) else called


def tell_when(response: HttpResponseBase, taken: Taken) -> None:
    """Add to a refusal when to come again."""
    response.headers["Retry-After"] = str(ceil(taken.retry_after))


def _is_shared(response: HttpResponseBase) -> bool:
    """Whether a cache may give the response to other clients, for whom the numbers are wrong."""
    said = response.headers.get("Cache-Control", "").lower().split(",")
    says = {directive.partition("=")[0].strip() for directive in said}
    return bool(says & {"public", "max-age", "s-maxage"}) and not says & {"private", "no-store"}
