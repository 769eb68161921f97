"""A throttle that holds when requests come at once. Any view of REST framework can use it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from rest_framework import status
from rest_framework.exceptions import APIException, Throttled
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from django_counters.exceptions import CounterUnavailable
from django_counters.limits.gcra import Taken, take
from django_counters.rates import Rate, rate_of
from django_counters.rest.announcing import Looked, announce
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


class ThrottleUnavailable(APIException):
    """Nobody can tell at present how much was admitted, so nothing is."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = _("Requests cannot be limited at present, so none are admitted.")
    default_code = "throttle-unavailable"
    #: Seconds after which to try again: REST framework sends it as Retry-After.
    wait = 1


class TokenBucketThrottle(BaseThrottle):
    """Admits as many requests of each user, or of each address, as a rate says.

    It holds under any number of requests at once, on all servers that share the store: a bucket
    holds as many as the rate has, each request takes one, and they come back one by one.

    Throttles with the same scope and the same rate share the buckets. Two of them on one view take
    two for each request.

    Attributes:
        scope: names the limit.
        rate: such as ``"10/min"``; else it is what ``DEFAULT_THROTTLE_RATES`` has for the scope,
            where None means no limit.
        cache: the alias of ``CACHES`` whose Redis keeps the buckets. Where that is not a Redis, or
            is None, the database keeps them.
        timeout: seconds to wait for Redis.
        when_away: ``"refuse"`` (the answer is 503) or ``"admit"``, where the store is away.
    """

    scope: str = "counters"
    rate: str | None = None
    cache: str | None = "default"
    timeout: float = TIMEOUT
    when_away: WhenAway = "refuse"

    _wait: float | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Whether the request is admitted; takes one from the bucket if it is.

        Raises:
            ThrottleUnavailable: the store is away, and requests are to be refused then.
            ImproperlyConfigured: there is no rate for the scope, or it is none.
        """
        rate = self.get_rate()
        if rate is None:
            return True
        name = _named("throttle", self.scope, principal_of(request))
        taken = _take(name, rate, self.cache, self.timeout, self.when_away)
        if taken is None:
            return True
        announce(view, Looked(self.scope, rate, taken))
        self._wait = None if taken.admitted else taken.wait
        return taken.admitted

    def wait(self) -> float | None:
        """Seconds until the next request would be admitted."""
        return self._wait

    def get_rate(self) -> Rate | None:
        """The rate that holds; None for no limit."""
        text = self.rate
        if text is None:
            rates = api_settings.DEFAULT_THROTTLE_RATES
            if self.scope not in rates:
                problem = f"DEFAULT_THROTTLE_RATES has no rate for the scope {self.scope!r}."
                raise ImproperlyConfigured(problem)
            declared = rates[self.scope]
            text = None if declared is None else str(declared)
        if text is None:
            return None
        try:
            return rate_of(text)
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
    """Admit so many of this principal under a name, or none, as `TokenBucketThrottle` does.

    ``whom``: whose bucket it is, if not that of the principal. ``called``: what the client is told
    that the limit is called, if not its name; to who has no request of REST framework nothing is
    told. Returns what was taken, and how many more would be admitted.

    Raises:
        Throttled: there were too many; without a time to wait for where a full bucket has not as
            much.
        ThrottleUnavailable: the store is away, and requests are to be refused then.
        ValueError: the text is not a rate.
    """
    rate = rate_of(rate_text)
    if cost > rate.number:
        raise Throttled(detail=_("This is more at once than the limit allows."))
    bucket = _named("limit", name, whom or principal_of(request))
    taken = _take(bucket, rate, cache, timeout, when_away, cost)
    if taken is None:
        return _UNASKED
    announce(_view_of(request), Looked(called or name, rate, taken))
    if not taken.admitted:
        raise Throttled(taken.wait)
    return taken


def _view_of(request: Request | HttpRequest) -> APIView | None:
    view: APIView | None = getattr(request, "parser_context", {}).get("view")
    return view


def _named(kind: str, name: str, whom: str) -> str:
    return f"{kind}\n{name}\n{whom}"


def _take(
    name: str,
    rate: Rate,
    cache: str | None,
    timeout: float,
    when_away: WhenAway,
    cost: int = 1,
) -> Taken | None:
    """What was found in the bucket; None where nobody can tell, and all are admitted then."""
    try:
        return take(name, rate, cache=_redis(cache), timeout=timeout, cost=cost)
    except CounterUnavailable as error:
        if when_away == "admit":
            return None
        raise ThrottleUnavailable from error


def _redis(cache: str | None) -> str | None:
    """The alias, unless it is that of another kind of cache."""
    return None if cache and is_other_cache(cache) else cache
