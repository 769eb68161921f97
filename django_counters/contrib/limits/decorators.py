"""Limits as decorators of views, and the headers of their answers."""

from __future__ import annotations

import string
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from inspect import isawaitable
from math import ceil
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack
from urllib.parse import quote

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from django.utils.translation import gettext as _

from django_counters.contrib.limits.algorithms import LimitResult, Name
from django_counters.contrib.limits.limit import By, Limit, WhenAway

# -- The headers of limits: RateLimit-Policy, RateLimit and Retry-After.
# They follow draft-ietf-httpapi-ratelimit-headers-11. The draft still changes; no other file
# depends on it.

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


# -- Limits of views: a decorator, which is a middleware as well.

View = TypeVar("View", bound=Callable[..., Any])
Refusal = Callable[[HttpRequest, LimitResult], HttpResponseBase | Awaitable[HttpResponseBase]]
# Django looks for these attributes on a middleware. Each belongs to that middleware alone.
_HOOKS = ("process_view", "process_exception", "process_template_response")
# The name of a limit before its view is known. No function has this name.
_NAMELESS = "<the view>"


class Options(TypedDict, total=False):
    """The options of a `Limit`, without its name and rate."""

    burst: int | None
    by: By
    algorithm: Name
    network: int
    cache: str | None
    using: str | None
    timeout: float
    when_away: WhenAway | None


def limited(
    rate: str | Limit,
    *,
    name: str = "",
    cost: int = 1,
    refused: Refusal | None = None,
    **options: Unpack[Options],
) -> Limited:
    """Limit the requests of a view, sync or async; or, named in ``MIDDLEWARE``, of the site.

    A request above the limit gets 429. If the store is unavailable and the limit then refuses, the
    request gets 503. Both answers have Retry-After, and the view isn't called. The headers
    RateLimit and RateLimit-Policy describe the nearest limit.

    Args:
        rate: such as ``"100/min"``, or a `Limit` with all of the options.
        name: the limit's name; the default is the view's module and function. Methods, views that
            are made by functions, and middlewares need one.
        cost: how many of the limit each request takes.
        refused: makes the answer to a refused request: a plain function, or an async one for async
            views.
        options: those of `Limit`.

    Raises:
        ValueError: an argument is wrong, or the cost is more than a full limit has.
        ImproperlyConfigured: the view needs a name, or isn't async though ``refused`` is.
    """
    if isinstance(rate, Limit):
        if name or options:
            raise ValueError("Pass the name and the options to Limit(), not to limited().")
        limit = rate
    else:
        limit = Limit(name or _NAMELESS, rate, **options)
    limit.check_cost(cost)
    return Limited(limit, cost, refused)


@dataclass(frozen=True)
class Limited:
    """The result of `limited`. Called with a view, it returns the limited view."""

    limit: Limit
    cost: int
    refused: Refusal | None

    # Django reads these attributes of a middleware.
    sync_capable = True
    async_capable = True

    def __call__(self, view: View) -> View:
        limit, is_async = self.limit, iscoroutinefunction(view)
        if iscoroutinefunction(self.refused) and not is_async:
            raise ImproperlyConfigured(
                f"refused={self.refused!r} is async, but the limited view isn't: {view!r}."
            )
        if limit.name == _NAMELESS:
            limit = replace(limit, name=_name_of(view))
        wrapped: View = (self._async if is_async else self._sync)(limit, view)
        for hook in _HOOKS:
            # wraps() copied it from the wrapped middleware, so Django would call it twice.
            vars(wrapped).pop(hook, None)
        return wrapped

    def _sync(self, limit: Limit, view: Any) -> Any:
        @wraps(view)
        def limited_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            who = limit.of(request)
            taken = None if who is None else limit.take(who, self.cost)
            short = _short(limit, request, taken)
            if short is None:
                response: HttpResponseBase = view(request, *args, **kwargs)
            else:
                response = self._made(request, short)
                tell_when(response, short)
            tell(request, response)
            return response

        return limited_view

    def _async(self, limit: Limit, view: Any) -> Any:
        @wraps(view)
        async def limited_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            who = await limit.aof(request)
            taken = None if who is None else await limit.atake(who, self.cost)
            short = _short(limit, request, taken)
            if short is None:
                response: HttpResponseBase = await view(request, *args, **kwargs)
            else:
                made = self._made(request, short)
                response = await made if isawaitable(made) else made
                tell_when(response, short)
            tell(request, response)
            return response

        return limited_view

    def _made(self, request: HttpRequest, short: LimitResult) -> Any:
        """Return the answer to a refused request, or an awaitable of it."""
        return (self.refused or refusal)(request, short)


def _short(limit: Limit, request: HttpRequest, taken: LimitResult | None) -> LimitResult | None:
    """Return the result if it refuses the request."""
    if taken is None:
        return None
    remember(request, limit, taken)
    return None if taken else taken


def refusal(request: HttpRequest, taken: LimitResult) -> HttpResponse:  # noqa: ARG001
    """Return the default answer to a refused request."""
    if taken.counted:
        status, text = 429, _("Too many requests. Try again later.")
    else:
        status, text = 503, _("Requests can't be limited now, so none are admitted.")
    headers = {"Cache-Control": "no-store"}
    return HttpResponse(f"{text}\n", "text/plain; charset=utf-8", status, headers=headers)


def _name_of(view: Any) -> str:
    name = getattr(view, "__qualname__", "<locals>")
    if not name.isidentifier():
        raise ImproperlyConfigured(
            f"The limit of {view!r} needs a name: limited(..., name='search')."
        )
    return f"{view.__module__}.{name}"
