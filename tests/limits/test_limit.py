"""What a limit is made of, whose it is, and what it refuses to be."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation
from django.test import RequestFactory

from django_counters.access import Rate
from django_counters.contrib.limits import Limit, LimitResult
from django_counters.contrib.limits.limit import prune_limits
from django_counters.contrib.limits.models import CounterLimit
from django_counters.redis.keys import state
from tests.redis.counting import eventually, server
from tests.testapp.models import Page, ProxyPage

PATIENCE = 10
IPV6 = "2001:db8:1:2:3:4:5:6"
DAY = 86_400


def some_limit(rate: str = "3/day", **options: Any) -> Limit:
    """A limit that no other test has."""
    return Limit(secrets.token_hex(8), rate, **{"timeout": PATIENCE, **options})


async def nobody(request: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": ""}, "1 to 200 characters"),
        ({"name": "a" * 201}, "1 to 200 characters"),
        ({"name": None}, "1 to 200 characters"),
        ({"rate": "often"}, "is not a rate"),
        ({"rate": "0/min"}, "admits nothing"),
        ({"rate": None}, "is not a rate"),
        *(({"rate": Rate._make((n, 60))}, "not an integer") for n in ("10", 1.5, True, None)),
        *(({"rate": Rate._make((9, t))}, "not a time") for t in ("60", None, True, math.nan)),
        *(({"burst": burst}, "from 1 to 9, not") for burst in (0, -1, 10, 11, 2.0, True, "2")),
        ({"rate": "1/min", "burst": 1}, "burst"),
        ({"rate": "1000/day", "burst": 999}, "more than a year"),
        ({"algorithm": "fixed", "burst": 2}, "burst needs algorithm='gcra', not 'fixed'"),
        ({"algorithm": "sliding"}, "algorithm can't be 'sliding'"),
        ({"algorithm": "fix"}, "Did you mean 'fixed'?"),
        ({"algorithm": "log", "rate": "1001/h"}, "The most is 1000"),
        ({"by": "ip"}, "by can't be 'ip'"),
        ({"by": "adress"}, "Did you mean 'address'?"),
        ({"by": None}, "or a plain function"),
        ({"by": nobody}, "or a plain function"),
        *(({"network": bits}, "16 to 64 bits") for bits in (15, 65, "48", True)),
        *(({"timeout": given}, "seconds above 0") for given in (0, -1, "1", None, True, math.nan)),
        ({"when_away": "wait"}, "'refuse' or 'admit', not 'wait'"),
    ],
)
def test_what_is_wrong_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Limit(**{"name": "search", "rate": "10/min", **options})


@pytest.mark.parametrize("cost", [0, -1, 4, 1.0, True, "1", None])
def test_a_cost_that_it_never_has(cost: Any) -> None:
    with pytest.raises(ValueError, match="never admits more"):
        some_limit("9/day", burst=3).take("ann", cost)


@pytest.mark.parametrize("who", ["", None, 7, b"ann", User(username="ann")])
def test_nobody(who: Any) -> None:
    with pytest.raises(ValueError, match="isn't a text or a saved user"):
        some_limit().take(who)


def test_an_answer_is_as_true_as_it_is_allowed() -> None:
    one = some_limit("1/day")
    first, second = one.take("ann"), one.take("ann")
    assert (first, first.allowed, first.counted, first.retry_after) == (first, True, True, 0)
    assert first
    assert not second
    assert DAY - 60 < second.retry_after <= DAY
    with pytest.raises(AttributeError):
        first.allowed = False  # type: ignore[misc]


def test_each_name_rate_burst_and_algorithm_is_a_limit_of_its_own() -> None:
    name = secrets.token_hex(8)
    ways: list[dict[str, Any]] = [{}, {"burst": 1}, {"algorithm": "fixed"}, {"algorithm": "log"}]
    for options in ways:
        # The same words are the same limit, wherever they are written.
        ones = [Limit(name, "2/day", timeout=PATIENCE, **options) for _ in range(3)]
        assert [bool(one.take("ann")) for one in ones].count(True) == ones[0].capacity
    assert Limit(name + "a", "2/day", timeout=PATIENCE).take("nn", 2)


def test_what_clients_call_themselves_may_be_anything() -> None:
    one = some_limit("1/day")
    assert one.take("\udc80")
    assert not one.take("\udc80")
    assert one.take("x" * 100_000)


def test_a_user_is_the_same_one_through_a_proxy() -> None:
    """Or two ways to log in would be two limits of one person."""
    one = some_limit("1/day")
    assert one.take(Page(pk=1))
    assert not one.take(ProxyPage(pk=1))


class TestWhom:
    """`Limit.of`."""

    @pytest.mark.parametrize(
        ("by", "user", "expected"),
        [
            ("user", User(pk=7), "user:auth.User:7"),
            ("user", AnonymousUser(), None),
            ("address", User(pk=7), "address:2001:db8:1:2::/64"),
            ("user_or_address", User(pk=7), "user:auth.User:7"),
            ("user_or_address", AnonymousUser(), "address:2001:db8:1:2::/64"),
            (lambda request: request.path, User(pk=7), "/x"),
            (lambda request: None, User(pk=7), None),
        ],
    )
    def test_by(self, by: Any, user: Any, expected: str | None) -> None:
        request: Any = RequestFactory().get("/x", REMOTE_ADDR=IPV6)
        request.user = user
        assert some_limit(by=by).of(request) == expected

    @pytest.mark.parametrize(("bits", "network"), [(56, "2001:db8:1::"), (32, "2001:db8::")])
    def test_wider_networks(self, bits: int, network: str) -> None:
        request = RequestFactory().get("/", REMOTE_ADDR=IPV6)
        for by in ("address", "user_or_address"):
            one = some_limit(by=by, network=bits)
            assert one.of(request) == f"address:{network}/{bits}"
        assert one.of(RequestFactory().get("/", REMOTE_ADDR="1.2.3.4")) == "address:1.2.3.4"

    def test_behind_proxies(self, settings: Any) -> None:
        settings.REST_FRAMEWORK = {"NUM_PROXIES": 1}
        request = RequestFactory().get("/", HTTP_X_FORWARDED_FOR="6.6.6.6, 4.4.4.4")
        assert some_limit(by="address").of(request) == "address:4.4.4.4"

    def test_by_user_where_nobody_looks_who_that_is(self) -> None:
        with pytest.raises(ImproperlyConfigured, match="AuthenticationMiddleware"):
            some_limit(by="user").of(RequestFactory().get("/"))

    def test_a_function_that_returns_no_text(self) -> None:
        by: Callable[..., Any] = lambda _: 7  # noqa: E731
        with pytest.raises(TypeError, match="return a text or None, not 7"):
            some_limit(by=by).of(RequestFactory().get("/"))

    def test_a_user_in_code_is_the_one_of_requests(self) -> None:
        request: Any = RequestFactory().get("/")
        request.user = User(pk=7)
        one = some_limit("1/day", by="user")
        who = one.of(request)
        assert who
        assert one.take(who)
        assert not one.take(User(pk=7))


def test_the_call_that_waits_is_not_for_event_loops() -> None:
    one = some_limit("1/day")

    async def work() -> LimitResult:
        with pytest.raises(SynchronousOnlyOperation, match="atake"):
            one.take("ann")
        return await one.atake("ann")

    taken = asyncio.run(work())
    assert taken == LimitResult(True, 0, 0, taken.more)
    assert DAY - 60 < taken.more <= DAY


@pytest.mark.parametrize("options", [{}, {"algorithm": "fixed"}, {"algorithm": "log"}])
class TestForgotten:
    """What nothing is taken from any more."""

    @pytest.mark.django_db
    def test_in_the_database(self, options: dict[str, Any]) -> None:
        some_limit("9/day", cache=None, **options).take("ann")
        assert prune_limits() == 0
        assert CounterLimit.objects.count() == 1
        CounterLimit.objects.update(arrival=1)
        assert prune_limits() == 1

    @pytest.mark.django_db
    def test_when_the_time_has_passed(self, options: dict[str, Any]) -> None:
        one = some_limit("9/s", cache=None, **options)
        one.take("ann")
        assert eventually(lambda: prune_limits() == 1)

    def test_in_redis(self, options: dict[str, Any]) -> None:
        one = some_limit("3/s", **options)
        prefix = settings.CACHES["default"]["KEY_PREFIX"]
        key = state("l", one._draw("ann", 1).digest, prefix)
        with server() as direct:
            assert one.take("ann")
            assert direct.exists(key)
            assert eventually(lambda: not direct.exists(key))
