"""Limits in REST framework: a throttle, a call for views, and the rates of the ``API`` option."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponseBase
from django.utils.translation import gettext_lazy as _
from rest_framework import status
from rest_framework.exceptions import APIException, Throttled, ValidationError
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from django_counters.access import Access
from django_counters.contrib.limits.algorithms import LimitResult
from django_counters.contrib.limits.decorators import remember, tell
from django_counters.contrib.limits.limit import Limit
from django_counters.principal import network_of, principal_of

if TYPE_CHECKING:
    # It imports the throttles of the settings, which may include this module's.
    from rest_framework.views import APIView

# Seconds. A refusal in error is worse than a wait.
LIMIT_TIMEOUT = 0.5


class ThrottleUnavailable(APIException):
    """The store of the limits is unavailable, so no request is admitted."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = _("Requests can't be limited now, so none are admitted.")
    default_code = "throttle-unavailable"
    #: REST framework sends these seconds as Retry-After.
    wait = 1


class LimitThrottle(BaseThrottle):
    """A throttle by a `Limit`, of which each request takes one.

    Throttles with the same limit share it. Two of them on one view take two for each request.

    Attributes:
        limit: the limit; None for the scope's limit.
        scope: the name of a limit with default options, whose rate is in
            ``DEFAULT_THROTTLE_RATES``. The rate None means no limit.
    """

    limit: Limit | None = None
    scope: str = "counters"

    _wait: float | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Take one of the limit; return whether the request is admitted.

        Raises:
            ThrottleUnavailable: the store is unavailable, and the limit then refuses.
            ImproperlyConfigured: the scope has no rate, or an invalid one.
        """
        limit = self.get_limit()
        who = None if limit is None else limit.of(request)
        if limit is None or who is None:
            return True
        taken = _taken(request, view, limit, who, 1)
        self._wait = None if taken else taken.retry_after
        return taken.allowed

    def wait(self) -> float | None:
        """Return the seconds until the next request would be admitted."""
        return self._wait

    def get_limit(self) -> Limit | None:
        """Return the limit; None for no limit."""
        if self.limit is not None:
            return self.limit
        rates = api_settings.DEFAULT_THROTTLE_RATES
        if self.scope not in rates:
            problem = f"DEFAULT_THROTTLE_RATES has no rate for the scope {self.scope!r}. Add one."
            raise ImproperlyConfigured(problem)
        rate = rates[self.scope]
        try:
            return None if rate is None else _limit_of_scope(self.scope, str(rate))
        except ValueError as error:
            raise ImproperlyConfigured(f"The scope {self.scope!r}: {error}") from error


_limit_of_scope = cache(Limit)


def charge(
    request: Request | HttpRequest, limit: Limit, cost: int = 1, *, who: str | None = None
) -> LimitResult | None:
    """Take ``cost`` of a limit for a request, all or none; its answer gets the limit's headers.

    Args:
        who: the limited user, address or text; by default the limit's ``by`` chooses it.

    Returns:
        The result; None if the limit doesn't apply to the request.

    Raises:
        Throttled: too little is left.
        ThrottleUnavailable: the store is unavailable, and the limit then refuses.
        ValueError: ``cost`` is more than a full limit has.
    """
    who = who or limit.of(request)
    if who is None:
        return None
    view = getattr(request, "parser_context", {}).get("view")
    taken = _taken(request, view, limit, who, cost)
    if not taken:
        raise Throttled(taken.retry_after)
    return taken


def _taken(
    request: Request | HttpRequest, view: APIView | None, limit: Limit, who: str, cost: int
) -> LimitResult:
    taken = limit.take(who, cost)
    if not (taken or taken.counted):
        raise ThrottleUnavailable
    remember(request, limit, taken)
    # Views of other frameworks may also call throttles.
    if hasattr(view, "finalize_response") and "finalize_response" not in vars(view):
        _tell_at_the_end(request, view)
    return taken


def _tell_at_the_end(request: Request | HttpRequest, view: Any) -> None:
    """Add the headers to the finished response of a view, which serves one request."""
    finalize = view.finalize_response

    def finalize_response(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase = finalize(*args, **kwargs)
        tell(request, response)
        return response

    view.finalize_response = finalize_response


def charge_changes(request: Request, namespace: str, access: Access, changes: int) -> None:
    """Take changes from the ``limit`` and the ``network_limits`` of a namespace's ``API`` option.

    Raises:
        ValidationError: the changes are more than a full limit has.
        Throttled: too little is left.
        ThrottleUnavailable: the store is unavailable.
    """
    name = namespace or "default"
    limits: list[tuple[str, Limit]] = []
    if access.limit:
        limit = _limit_of_namespace(name, access.limit, access.burst)
        limits.append((principal_of(request), limit))
    for bits, rate in access.network_limits:
        # The widest comes last: a refused client takes nothing from its neighbours.
        network = network_of(request, bits)
        if network:
            limits.append((network, _limit_of_namespace(f"{name}/{bits}", rate)))
    for whom, limit in limits:
        if changes > limit.capacity:
            most = f"A request can change at most {limit.capacity} counters of {namespace}."
            raise ValidationError({"counters": [most]})
        # A limit of the project may have the same name.
        charge(request, limit, changes, who=f"api:{whom}")


@cache
def _limit_of_namespace(name: str, rate: str, burst: int | None = None) -> Limit:
    return Limit(name, rate, burst=burst, timeout=LIMIT_TIMEOUT, when_away="refuse")
