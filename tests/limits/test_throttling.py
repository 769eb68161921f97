"""The throttle on any view: what is admitted, for whom, and what happens without a store."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from rest_framework.exceptions import Throttled
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.views import APIView

from django_counters.contrib.limits import Limit
from django_counters.contrib.limits.models import CounterLimit
from django_counters.contrib.limits.rest import LimitThrottle, charge

DEAD = {
    "dead": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:1/0",
    },
    "memory": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}


@pytest.fixture(autouse=True)
def caches(settings: Any) -> None:
    measured = {**settings.CACHES["default"], "BACKEND": "tests.test_refusals.MeasuredCache"}
    settings.CACHES = {**settings.CACHES, **DEAD, "measured": measured}


@pytest.fixture(params=["default", "measured", None, "memory"])
def cache(request: pytest.FixtureRequest, db: None) -> str | None:
    found: str | None = request.param
    return found


class Named(LimitThrottle):
    """A throttle that has a limit."""

    limit: Limit


def throttle(name: str = "", rate: str = "3/day", **declared: Any) -> type[Named]:
    """A throttle of a limit that no other test has, patient unless said otherwise."""
    limit = Limit(name or secrets.token_hex(8), rate, **{"timeout": 10, **declared})
    return type("Throttle", (Named,), {"limit": limit})


class Site:
    """A view with throttles."""

    def __init__(self, *throttles: type[LimitThrottle]) -> None:
        class View(APIView):
            authentication_classes = ()
            permission_classes = (AllowAny,)
            throttle_classes = throttles

            def get(self, request: Request) -> Response:
                return Response("done")

        self._view = View.as_view()

    def get(self, user: User | None = None, **headers: Any) -> Response:
        request = APIRequestFactory().get("/", **headers)
        if user:
            force_authenticate(request, user)
        response: Response = self._view(request)
        return response

    def statuses(self, times: int, user: User | None = None, **headers: Any) -> list[int]:
        return [self.get(user, **headers).status_code for _ in range(times)]


class TestRate:
    def test_what_is_too_much_is_429(self, cache: str | None) -> None:
        site = Site(throttle(cache=cache))
        assert site.statuses(3) == [200, 200, 200]
        refused = site.get()
        assert refused.status_code == 429
        assert 28_800 - 20 <= int(refused["Retry-After"]) <= 28_800
        assert bool(CounterLimit.objects.exists()) == (cache in (None, "memory"))

    def test_the_rate_may_stand_in_the_settings(self, settings: Any) -> None:
        scope = secrets.token_hex(8)
        settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {scope: "1/day"}}
        one = type("Throttle", (LimitThrottle,), {"scope": scope})
        assert Site(one).statuses(2) == [200, 429]

    @pytest.mark.parametrize("rates", [{}, {"hits": "often"}])
    def test_a_scope_without_a_rate(self, settings: Any, rates: dict[str, str]) -> None:
        settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": rates}
        with pytest.raises(ImproperlyConfigured, match="scope 'hits'"):
            Site(type("Throttle", (LimitThrottle,), {"scope": "hits"})).get()

    def test_throttles_of_one_limit_share_it(self) -> None:
        one = throttle(rate="4/day")
        assert Site(one, one).statuses(3) == [200, 200, 429]
        assert Site(throttle(), throttle()).statuses(4) == [200, 200, 200, 429]


class TestPrincipals:
    def test_each_user_has_a_bucket_wherever_it_comes_from(self) -> None:
        site, one, two = Site(throttle()), User(pk=1), User(pk=2)
        assert site.statuses(2, one, REMOTE_ADDR="1.1.1.1") == [200, 200]
        assert site.statuses(2, one, REMOTE_ADDR="2.2.2.2") == [200, 429]
        assert site.statuses(4, two, REMOTE_ADDR="1.1.1.1") == [200, 200, 200, 429]
        assert site.statuses(1, REMOTE_ADDR="1.1.1.1") == [200]


class TestAway:
    def test_it_refuses(self) -> None:
        refused = Site(throttle(cache="dead")).get()
        assert (refused.status_code, refused["Retry-After"]) == (503, "1")
        assert refused.data["detail"].code == "throttle-unavailable"

    def test_it_admits(self) -> None:
        site = Site(throttle(cache="dead", when_away="admit"))
        assert site.statuses(5) == [200] * 5


def test_several_at_once() -> None:
    request = APIView().initialize_request(APIRequestFactory().get("/"))
    limit = Limit(secrets.token_hex(8), "3/day", timeout=10)
    assert charge(request, limit, 2)
    with pytest.raises(Throttled) as caught:
        charge(request, limit, 2)
    told: Any = caught.value
    assert told.wait > 60
    with pytest.raises(ValueError, match="not 4: "):
        charge(request, limit, 4)
    assert charge(request, limit)
    assert charge(request, Limit("users", "3/day", by=lambda _: None)) is None
