"""The throttle on any view: what is admitted, for whom, and what happens without a store."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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

from django_counters.exceptions import CounterUnavailable, InvalidConfiguration
from django_counters.models import CounterLimit
from django_counters.rest.throttling import ThrottleUnavailable, TokenBucketThrottle, limit
from tests.concurrency.crowd import in_turns
from tests.stores.redis.servers import needs_redis, running

DEAD = {
    "dead": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:1/0",
    },
    "memory": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}


@pytest.fixture(autouse=True)
def caches(settings: Any) -> None:
    settings.CACHES = {**settings.CACHES, **DEAD}


@pytest.fixture(params=["default", None, "memory"])
def cache(request: pytest.FixtureRequest, db: None) -> str | None:
    found: str | None = request.param
    return found


def throttle(**declared: Any) -> type[TokenBucketThrottle]:
    """A throttle of a scope that no other test has, patient unless said otherwise."""
    scope = secrets.token_hex(8)
    given = {"scope": scope, "rate": "3/day", "timeout": 10, **declared}
    return type("Throttle", (TokenBucketThrottle,), given)


class Site:
    """A view with throttles."""

    def __init__(self, *throttles: type[TokenBucketThrottle]) -> None:
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
        assert bool(CounterLimit.objects.exists()) == (cache != "default")

    def test_the_rate_may_stand_in_the_settings(self, settings: Any) -> None:
        scope = secrets.token_hex(8)
        settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {scope: "1/day"}}
        assert Site(throttle(scope=scope, rate=None)).statuses(2) == [200, 429]

    def test_no_limit_is_declared(self, settings: Any) -> None:
        settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"free": None}}
        free = throttle(scope="free", rate=None, cache="dead")
        assert Site(free).statuses(5) == [200] * 5

    def test_nothing_is_declared(self, settings: Any) -> None:
        settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"other": "1/s"}}
        with pytest.raises(ImproperlyConfigured, match="no rate for the scope 'mine'"):
            Site(throttle(scope="mine", rate=None)).get()

    def test_what_is_declared_is_no_rate(self) -> None:
        with pytest.raises(ImproperlyConfigured, match="'many' is not a rate"):
            Site(throttle(rate="many")).get()

    def test_an_alias_that_is_not_there(self) -> None:
        with pytest.raises(InvalidConfiguration, match="no cache 'nowhere'"):
            Site(throttle(cache="nowhere")).get()

    def test_throttles_of_one_scope_share_the_bucket(self) -> None:
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

    def test_each_address_has_a_bucket(self) -> None:
        site = Site(throttle())
        assert site.statuses(4, REMOTE_ADDR="1.1.1.1") == [200, 200, 200, 429]
        assert site.statuses(1, REMOTE_ADDR="1.1.1.2") == [200]

    @pytest.mark.parametrize("proxies", [None, 0, 1, 2])
    def test_a_forged_header_does_not_help(self, settings: Any, proxies: int | None) -> None:
        """Each proxy appends who has asked it; what stands before is whatever somebody wrote."""
        settings.REST_FRAMEWORK = {"NUM_PROXIES": proxies}
        site = Site(throttle())
        seen = ["9.9.9.9", "10.0.0.1"][: proxies or 0]
        statuses = [
            site.get(HTTP_X_FORWARDED_FOR=", ".join([f"{n}.6.6.6", *seen])).status_code
            for n in range(5)
        ]
        assert statuses == [200, 200, 200, 429, 429]

    def test_all_addresses_of_a_network_are_one(self) -> None:
        site = Site(throttle())
        statuses = [site.get(REMOTE_ADDR=f"2001:db8::{n}").status_code for n in range(1, 5)]
        assert statuses == [200, 200, 200, 429]
        assert site.statuses(1, REMOTE_ADDR="2001:db8:0:1::1") == [200]

    def test_a_socket_without_addresses(self) -> None:
        assert Site(throttle()).statuses(4, REMOTE_ADDR="") == [200, 200, 200, 429]


class TestAway:
    def test_it_refuses(self) -> None:
        refused = Site(throttle(cache="dead")).get()
        assert (refused.status_code, refused["Retry-After"]) == (503, "1")
        assert refused.data["detail"].code == "throttle-unavailable"

    def test_it_says_why(self) -> None:
        view = APIView()
        request = view.initialize_request(APIRequestFactory().get("/"))
        with pytest.raises(ThrottleUnavailable) as caught:
            throttle(cache="dead")().allow_request(request, view)
        assert isinstance(caught.value.__cause__, CounterUnavailable)

    def test_it_admits(self) -> None:
        site = Site(throttle(cache="dead", when_away="admit"))
        assert site.statuses(5) == [200] * 5

    @needs_redis
    def test_a_server_that_is_stopped(self, tmp_path: Path, settings: Any) -> None:
        with running(tmp_path, ("--save", "")) as (server,):
            url = f"redis://127.0.0.1:{server.port}/0"
            settings.CACHES = {"own": {**DEAD["dead"], "LOCATION": url}}
            strict, lenient = throttle(cache="own"), throttle(cache="own", when_away="admit")
            assert Site(strict).statuses(4) == [200, 200, 200, 429]
            assert Site(lenient).statuses(4) == [200, 200, 200, 429]
            server.stop()
            assert Site(strict).statuses(5) == [503] * 5
            assert Site(lenient).statuses(5) == [200] * 5


def waits(error: Any) -> Any:
    """The seconds that REST framework sends as Retry-After."""
    return error.wait


class TestLimit:
    def once(self, name: str, rate: str = "3/day", *cost: int, **options: Any) -> None:
        request = APIView().initialize_request(APIRequestFactory().get("/"))
        limit(request, name, rate, *cost, **{"timeout": 10, **options})

    def test_what_is_too_much_is_throttled(self, cache: str | None) -> None:
        name = secrets.token_hex(8)
        for _ in range(3):
            self.once(name, cache=cache)
        with pytest.raises(Throttled) as caught:
            self.once(name, cache=cache)
        assert 28_800 - 20 <= waits(caught.value) <= 28_800
        self.once(secrets.token_hex(8), cache=cache)

    def test_several_at_once(self) -> None:
        name = secrets.token_hex(8)
        self.once(name, "3/day", 2)
        with pytest.raises(Throttled):
            self.once(name, "3/day", 2)
        self.once(name, "3/day", 1)

    def test_more_than_there_can_be(self) -> None:
        with pytest.raises(Throttled, match="more at once") as caught:
            self.once("a", "3/day", 4)
        assert waits(caught.value) is None

    def test_a_store_that_is_away(self) -> None:
        with pytest.raises(ThrottleUnavailable):
            self.once("a", cache="dead")
        self.once("a", cache="dead", when_away="admit")


class TestAtOnce:
    def test_a_hundred_requests_in_redis(self) -> None:
        site, barrier = Site(throttle(rate="10/day")), threading.Barrier(100)

        def work(_: int) -> int:
            barrier.wait(60)
            return site.get(User(pk=1)).status_code

        with ThreadPoolExecutor(100) as pool:
            statuses = list(pool.map(work, range(100)))
        assert (statuses.count(200), statuses.count(429)) == (10, 90)

    @pytest.mark.postgres
    @pytest.mark.django_db(transaction=True)
    def test_a_hundred_requests_in_the_database(self) -> None:
        site = Site(throttle(rate="10/day", cache=None))
        statuses = in_turns(lambda _: site.get(User(pk=1)).status_code, 100)
        assert (statuses.count(200), statuses.count(429)) == (10, 90)
