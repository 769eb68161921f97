"""What clients are told of the limits that hold for them: RateLimit-Policy and RateLimit."""

from __future__ import annotations

import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest
from django.http import HttpResponse
from rest_framework.permissions import AllowAny
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

from django_counters.contrib.limits.rest import LimitThrottle
from django_counters.models import Counter
from django_counters.rest.views import ReadView
from django_counters.testing import override_counters
from tests.limits.test_throttling import DEAD, throttle
from tests.rest.conftest import API_TESTS, NAMESPACES, ORIGIN, As

DAY = 86_400
# Seconds that a test may take.
PATIENCE = 60
FIELDS = {"RateLimit-Policy", "RateLimit"}


def get(*throttles: type[LimitThrottle], **headers: str) -> Any:
    """The answer of a view that has these throttles and answers with these headers."""

    class View(APIView):
        authentication_classes = ()
        permission_classes = (AllowAny,)
        throttle_classes = throttles

        def get(self, request: Any) -> Response:
            return Response("done", headers=headers)

    return View.as_view()(APIRequestFactory().get("/"))


def left(answer: Any, name: str) -> tuple[int, int]:
    """What is told of a limit of this name: how many remain, and for how many seconds."""
    found = re.fullmatch(f'"{re.escape(name)}";r=([0-9]+);t=([0-9]+)', answer["RateLimit"])
    assert found, answer["RateLimit"]
    return int(found[1]), int(found[2])


def is_told(answer: HttpResponse) -> bool:
    told = FIELDS & set(answer.headers)
    assert told in (set(), FIELDS)
    return bool(told)


@pytest.mark.parametrize("cache", ["default", None])
@pytest.mark.django_db
def test_what_is_left_and_when_there_is_more(cache: str | None) -> None:
    one = throttle(cache=cache, rate="4/day")
    answers = [get(one) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 429]
    assert {answer["RateLimit-Policy"] for answer in answers} == {f'"{one.limit.name}";q=4;w={DAY}'}
    told = [left(answer, one.limit.name) for answer in answers]
    assert [remaining for remaining, _ in told] == [3, 2, 1, 0, 0]
    # One comes back in a quarter of a day, whatever is left.
    assert all(DAY // 4 - PATIENCE < seconds <= DAY // 4 for _, seconds in told)
    assert int(answers[-1]["Retry-After"]) == told[-1][1]


def test_of_several_the_nearest() -> None:
    wide, narrow = throttle(rate="100/day"), throttle(rate="4/hour")
    for order in ((wide, narrow), (narrow, wide)):
        remaining, _ = left(get(*order), narrow.limit.name)
    assert remaining == 2


@pytest.mark.rare
def test_requests_at_once_are_never_told_of_more() -> None:
    one, number, crowd = throttle(rate="60/day"), 15, 4

    def work(_: int) -> list[int]:
        return [left(get(one), one.limit.name)[0] for _ in range(number)]

    with ThreadPoolExecutor(crowd) as pool:
        told = list(pool.map(work, range(crowd)))
    assert all(row == sorted(row, reverse=True) for row in told)
    assert sorted(chain.from_iterable(told)) == list(range(number * crowd))


def test_names_are_those_that_a_header_can_have() -> None:
    one = throttle('grün "\\%\r\nX: y' + secrets.token_hex(4))
    assert get(one)["RateLimit"].startswith('"gr%C3%BCn%20%22%5C%25%0D%0AX:%20y')


SHARED = ("public", "max-age=5", "Public, No-Cache", "s-maxage=5")
NOT_SHARED = ("private, max-age=5", "no-store, max-age=5", "no-cache", "")


def test_a_cache_that_is_shared_gets_none() -> None:
    """The numbers are of one client, and whoever is answered from the cache is another one."""
    one = throttle(rate="99/day")
    said = [*SHARED, *NOT_SHARED]
    told = [is_told(get(one, **{"Cache-Control": says})) for says in said]
    assert told == [False] * len(SHARED) + [True] * len(NOT_SHARED)


def test_where_nothing_is_limited_nothing_is_told(settings: Any) -> None:
    settings.CACHES = {**settings.CACHES, **DEAD}
    scope = secrets.token_hex(8)
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {scope: None}}
    away = throttle(cache="dead", when_away="admit")
    none = type("Throttle", (LimitThrottle,), {"scope": scope})
    for answer in (get(), get(none), get(away)):
        assert (answer.status_code, is_told(answer)) == (200, False)


class TestApi:
    pytestmark = API_TESTS

    def test_the_limit_of_a_namespace(self, as_: As) -> None:
        visitor = as_("anonymous", HTTP_ORIGIN=ORIGIN, REMOTE_ADDR="2001:db8::1")
        many = {"counters": [{"key": f"hits:{number}"} for number in range(4)]}
        api = {**NAMESPACES["hits"]["API"], "limit": "9/day"}
        with override_counters(hits={"API": {**api, "network_limits": {48: "6/day"}}}):
            told = visitor.bulk("increment", many)
            assert (told.status_code, left(told, "hits/48")[0]) == (200, 2)
            # Of its own limit less is left then, but it is the other one that refuses.
            refused = visitor.bulk("increment", many)
            assert (refused.status_code, left(refused, "hits/48")[0]) == (429, 2)
            assert refused["RateLimit-Policy"] == f'"hits/48";q=6;w={DAY}'
            assert left(visitor.do("increment", "hits:0"), "hits")[0] == 0
        assert not is_told(as_("user").do("increment", "likes:a"))

    def test_reads_that_all_share_tell_nothing(
        self, as_: As, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = throttle(rate="9/day")
        monkeypatch.setattr(ReadView, "throttle_classes", [one])
        Counter.objects.increment_many({"likes:a": 1, "inside:a": 1})
        shared, own = as_("anonymous").at("likes:a"), as_("staff").at("inside:a")
        assert "public" in shared["Cache-Control"]
        assert not is_told(shared)
        assert "private" in own["Cache-Control"]
        assert left(own, one.limit.name)[0] == 8
        # What is missing is an answer that nobody keeps.
        assert left(as_("anonymous").at("likes:nothing/"), one.limit.name)[0] == 7
