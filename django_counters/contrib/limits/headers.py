"""The headers of limits: RateLimit-Policy, RateLimit and Retry-After.

They follow draft-ietf-httpapi-ratelimit-headers-11. The draft still changes; no other file depends
on it.
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

from django_counters.contrib.limits.algorithms import LimitResult
from django_counters.contrib.limits.limit import Limit

# The characters of a structured field's string that need no encoding.
_PLAIN = "".join(set(string.printable) - set(string.whitespace) - set('"\\%'))
_ATTRIBUTE = "_counters_limit"


class LimitUse(NamedTuple):
    """A limit, and its state for a request."""

    limit: Limit
    taken: LimitResult

    def nearness(self) -> tuple[bool, float, float]:
        """Return a sort key: limits that refuse come first, then those with the least left."""
        limit, taken = self
        return taken.allowed, taken.remaining / limit.capacity, -taken.more

    def fields(self) -> Iterator[tuple[str, str]]:
        """Yield the headers."""
        limit, taken = self
        name = f'"{quote(limit.name, _PLAIN, errors="replace")}"'
        rate = limit.parsed
        yield "RateLimit-Policy", f"{name};q={rate.number};w={ceil(rate.seconds)}"
        yield "RateLimit", f"{name};r={taken.remaining};t={ceil(taken.more)}"


def remember(request: HttpRequest, limit: Limit, taken: LimitResult) -> None:
    """Keep the nearest limit of a request for the headers of its answer.

    A limit that wasn't counted has no headers. A request of REST framework wraps Django's.
    """
    if not taken.counted:
        return
    plain, use = getattr(request, "_request", request), LimitUse(limit, taken)
    known: LimitUse | None = getattr(plain, _ATTRIBUTE, None)
    nearest = use if known is None else min(known, use, key=LimitUse.nearness)
    setattr(plain, _ATTRIBUTE, nearest)


def tell(request: HttpRequest, response: HttpResponseBase) -> None:
    """Add the headers to a finished response, unless caches may share it."""
    nearest: LimitUse | None = getattr(getattr(request, "_request", request), _ATTRIBUTE, None)
    if nearest is not None and not _is_shared(response):
        for name, value in nearest.fields():
            response.headers[name] = value


@sync_and_async_middleware
def tell_limits(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware that adds the headers of a limit to answers that Django makes outside of the view.

    Those are the answers to `Http404`, `PermissionDenied` and any other exception.
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


def tell_when(response: HttpResponseBase, taken: LimitResult) -> None:
    """Add Retry-After to a refusal."""
    response.headers["Retry-After"] = str(ceil(taken.retry_after))


def _is_shared(response: HttpResponseBase) -> bool:
    """Return whether a cache may send the response to other clients, with wrong numbers."""
    values = response.headers.get("Cache-Control", "").lower().split(",")
    names = {directive.partition("=")[0].strip() for directive in values}
    return bool(names & {"public", "max-age", "s-maxage"}) and not names & {"private", "no-store"}
