"""A throttle for any view of REST framework. It holds when requests come at once.

It tells clients of the nearest limit in RateLimit-Policy and RateLimit, as
draft-ietf-httpapi-ratelimit-headers-11 has them. The draft still changes; only this file knows it.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from importlib.util import find_spec
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponseBase
from django.utils.translation import gettext_lazy as _
from rest_framework import status
from rest_framework.exceptions import APIException, Throttled
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from django_counters.exceptions import CounterUnavailable
from django_counters.limits.gcra import Taken, take
from django_counters.rates import Rate, rate_of
from django_counters.rest.principal import principal_of
from django_counters.stores.redis.addresses import TIMEOUT, is_other_cache

if find_spec("redis"):
    # A child that is forked while another thread imports it would wait for that thread for ever.
    from django_counters.stores.redis import limits  # noqa: F401
if TYPE_CHECKING:
    # It imports the throttles of the settings, which may be this one.
    from rest_framework.views import APIView

WhenAway = Literal["refuse", "admit"]
_UNASKED = Taken(admitted=True, remaining=0, wait=0.0, more=0.0)
# A string of a structured field has no other characters.
_PLAIN = "".join(set(string.printable) - set(string.whitespace) - set('"\\%'))
_ATTRIBUTE = "_counters_limit"


class ThrottleUnavailable(APIException):
    """The store of the limits is away, so nothing is admitted."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = _("Requests cannot be limited at present, so none are admitted.")
    default_code = "throttle-unavailable"
    #: REST framework sends these seconds as Retry-After.
    wait = 1


class TokenBucketThrottle(BaseThrottle):
    """Limits the requests of each user, or of each address, to a rate.

    It holds under any number of concurrent requests, on all servers that share the store. A bucket
    holds as many requests as the rate has. Each request takes one, and they come back one by one.

    Throttles with the same scope and the same rate share the buckets. Two of them on one view take
    two for each request.

    Attributes:
        scope: the name of the limit.
        rate: such as ``"10/min"``; the default is what ``DEFAULT_THROTTLE_RATES`` has for the
            scope, where None means no limit.
        cache: the alias of ``CACHES`` whose Redis keeps the buckets. The database keeps them if
            that is None or not a Redis.
        timeout: seconds to wait for Redis.
        when_away: what to do while the store is away: ``"refuse"`` (with 503) or ``"admit"``.
    """

    scope: str = "counters"
    rate: str | None = None
    cache: str | None = "default"
    timeout: float = TIMEOUT
    when_away: WhenAway = "refuse"

    _wait: float | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Take one from the bucket, and return whether the request is admitted.

        Raises:
            ThrottleUnavailable: the store is away, and ``when_away`` says to refuse.
            ImproperlyConfigured: the scope has no rate, or an invalid one.
        """
        rate = self.get_rate()
        if rate is None:
            return True
        bucket = f"throttle\n{self.scope}\n{principal_of(request)}"
        taken = _take(bucket, rate, self.cache, self.timeout, self.when_away)
        if taken is None:
            return True
        announce(view, Looked(self.scope, rate, taken))
        self._wait = None if taken.admitted else taken.wait
        return taken.admitted

    def wait(self) -> float | None:
        """Seconds until the next request would be admitted."""
        return self._wait

    def get_rate(self) -> Rate | None:
        """The rate; None for no limit."""
        text: object = self.rate
        if text is None:
            rates = api_settings.DEFAULT_THROTTLE_RATES
            if self.scope not in rates:
                problem = f"DEFAULT_THROTTLE_RATES has no rate for the scope {self.scope!r}."
                raise ImproperlyConfigured(problem)
            text = rates[self.scope]
        try:
            return None if text is None else rate_of(str(text))
        except ValueError as error:
            raise ImproperlyConfigured(f"The scope {self.scope!r}: {error}") from error


def limit(
    request: Request | HttpRequest,
    name: str,
    rate_text: str,
    cost: int = 1,
    *,
    cache: str | None = "default",
    timeout: float = TIMEOUT,
    when_away: WhenAway = "refuse",
    whom: str | None = None,
    called: str | None = None,
) -> Taken:
    """Take ``cost`` from the bucket of the principal, all or none, as `TokenBucketThrottle` does.

    Views of REST framework tell their clients of the limit.

    Args:
        name: the name of the limit.
        rate_text: such as ``"10/min"``.
        whom: the owner of the bucket, instead of the principal.
        called: the name of the limit that clients are told, instead of ``name``.

    Returns:
        What was taken, and how many more would be admitted.

    Raises:
        Throttled: the bucket has too little. It has no time to wait for if ``cost`` is more than a
            full bucket holds.
        ThrottleUnavailable: the store is away, and ``when_away`` says to refuse.
        ValueError: the text is not a rate.
    """
    rate = rate_of(rate_text)
    if cost > rate.number:
        raise Throttled(detail=_("This is more at once than the limit allows."))
    bucket = f"limit\n{name}\n{whom or principal_of(request)}"
    taken = _take(bucket, rate, cache, timeout, when_away, cost)
    if taken is None:
        return _UNASKED
    view = getattr(request, "parser_context", {}).get("view")
    announce(view, Looked(called or name, rate, taken))
    if not taken.admitted:
        raise Throttled(taken.wait)
    return taken


def _take(
    name: str,
    rate: Rate,
    cache: str | None,
    timeout: float,
    when_away: WhenAway,
    cost: int = 1,
) -> Taken | None:
    """Take from the bucket; None if the store is away, and requests are admitted then."""
    if cache and is_other_cache(cache):
        cache = None
    try:
        return take(name, rate, cache=cache, timeout=timeout, cost=cost)
    except CounterUnavailable as error:
        if when_away == "admit":
            return None
        raise ThrottleUnavailable from error


class Looked(NamedTuple):
    """A limit, and what a request found in its bucket."""

    name: str
    rate: Rate
    taken: Taken

    def nearness(self) -> tuple[bool, float, float]:
        """A sort key. First comes the limit that refuses, then the one with the least left."""
        taken = self.taken
        return taken.admitted, taken.remaining / self.rate.number, -taken.more

    def fields(self) -> Iterator[tuple[str, str]]:
        """The headers."""
        name = f'"{quote(self.name, _PLAIN, errors="replace")}"'
        yield "RateLimit-Policy", f"{name};q={self.rate.number};w={ceil(self.rate.seconds)}"
        yield "RateLimit", f"{name};r={self.taken.remaining};t={ceil(self.taken.more)}"


def announce(view: APIView | None, looked: Looked) -> None:
    """Let the response of a view, which serves one request, tell of its nearest limit."""
    # Views of other frameworks may call throttles, too.
    if not hasattr(view, "finalize_response"):
        return
    known: Looked | None = getattr(view, _ATTRIBUTE, None)
    if known is None:
        _tell_at_the_end(view)
    nearest = looked if known is None else min(known, looked, key=Looked.nearness)
    setattr(view, _ATTRIBUTE, nearest)


def _tell_at_the_end(view: Any) -> None:
    """Add the headers to the finished response, which says what caches may do with it."""
    finalize = view.finalize_response

    def finalize_response(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase = finalize(*args, **kwargs)
        if not _is_shared(response):
            for name, value in getattr(view, _ATTRIBUTE).fields():
                response.headers[name] = value
        return response

    view.finalize_response = finalize_response


def _is_shared(response: HttpResponseBase) -> bool:
    """Whether a cache may give the response to other clients, for whom the numbers are wrong."""
    said = response.headers.get("Cache-Control", "").lower().split(",")
    says = {directive.partition("=")[0].strip() for directive in said}
    return bool(says & {"public", "max-age", "s-maxage"}) and not says & {"private", "no-store"}
