"""What counts once for each actor, over HTTP: users like and unlike, and nobody for another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_counters.contrib import likes, series, uniques
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.rest.asking import header
from tests.rest.conftest import API_TESTS, ORIGIN, As, problem

pytestmark = API_TESTS
KEY = "hearts:a"
FROM: dict[str, Any] = {"HTTP_ORIGIN": ORIGIN}
_API = {"read": "anyone", "increment": "authenticated", "decrement": "authenticated"}
_BEACON = {"increment": "beacon", "origins": [ORIGIN], "limit": "600/min"}
NAMESPACES: dict[str, dict[str, Any]] = {
    "hearts": {"ONCE": True, "API": _API},
    "spread": {"STRATEGY": "sharded", "ONCE": True, "UNIQUE": ["day"], "API": _API},
    "claps": {"ONCE": "30m", "API": _BEACON},
}


@pytest.fixture(autouse=True)
def _declared(namespaces: None) -> Iterator[None]:
    with override_counters(**NAMESPACES):
        yield


@pytest.mark.parametrize("key", [KEY, "spread:a"])
def test_a_user_counts_once_and_takes_it_back(as_: As, key: str) -> None:
    first, second = as_("user"), as_("user")
    for client, action, value, replayed in (
        (first, "increment", 1, False),
        (first, "increment", 1, True),
        (second, "increment", 2, False),
        (first, "decrement", 1, False),
        (first, "decrement", 1, True),
        (first, "increment", 2, False),
    ):
        answer = client.do(action, key).json()
        assert (answer["value"], answer["replayed"]) == (value, replayed)
    assert all(likes.has(key, user) for user in User.objects.all())
    if key == "spread:a":
        assert uniques.count(series.of(key).last("1d")) == 2


def test_a_new_key_does_not_hide_that_nothing_was_counted(as_: As) -> None:
    user = as_("user")
    for name, replayed in (("one", False), ("two", True), ("two", True)):
        assert user.do("increment", KEY, **header(name)).json()["replayed"] is replayed
    assert Counter.objects.value(KEY) == 1


def test_nobody_takes_back_what_is_anothers(as_: As) -> None:
    as_("user").do("increment", KEY)
    pk = str(User.objects.get().pk)
    for action in ("increment", "decrement"):
        problem(as_("user").do(action, KEY, {"who": pk}), 403)
    assert as_("user").do("decrement", KEY).json()["replayed"]
    assert Counter.objects.value(KEY) == 1


def test_a_visitor_is_told_apart_by_who(as_: As) -> None:
    visitor = as_("anonymous")
    problem(visitor.do("increment", "claps:a", **FROM), 400, "invalid")
    for who in ("x", "x", "y"):
        assert visitor.do("increment", "claps:a", {"who": who}, **FROM).status_code == 200
    assert Counter.objects.value("claps:a") == 2
    assert likes.has("claps:a", "visitor:x")
    assert not likes.has("claps:a", "x")


def test_with_a_key_it_is_answered_the_same(as_: As) -> None:
    user = as_("user")
    first = user.do("increment", KEY, **header("one"))
    user.do("decrement", KEY)
    again = user.do("increment", KEY, **header("one"))
    assert (again.json()["value"], again["Idempotent-Replayed"]) == (first.json()["value"], "true")
    assert Counter.objects.value(KEY) == 0


def test_in_no_bulk_and_by_one(as_: As) -> None:
    user = as_("user")
    problem(user.bulk("increment", {"counters": [{"key": KEY}]}), 400, "invalid")
    problem(user.do("increment", KEY, {"by": 2}), 400, "invalid")
    assert Counter.objects.value(KEY) == 0
