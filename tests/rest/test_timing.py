"""What is forbidden takes as long as what there is not, so that the time tells nothing."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters.models import Counter
from django_counters.rest import expose
from tests.rest.conftest import OPEN, As
from tests.testapp.models import Post

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]
PAIRS = 200
# Of the machine of a test nobody knows what else it does: a real difference is there each time.
ATTEMPTS = 3
MOST_APART = 0.05
SLOW = pytest.mark.slow
Ask = Callable[[], Any]


def statements(ask: Ask) -> list[str]:
    """What a request asks the database, without what it asks for."""
    with CaptureQueriesContext(connection) as queries:
        ask()
    return [re.sub(r"'[^']*'|\d+", "?", query["sql"]) for query in queries]


def assert_alike(first: Ask, second: Ask, status: int) -> None:
    """Fail unless both ask the database alike and take as long, in the median."""
    assert first().status_code == second().status_code == status
    assert statements(first) == statements(second)
    found: list[float] = []
    while not found or found[-1] > MOST_APART:
        assert len(found) < ATTEMPTS, f"apart by {[f'{apart:.1%}' for apart in found]}"
        found.append(abs(median(_ratios(first, second)) - 1))


def _ratios(first: Ask, second: Ask) -> Iterator[float]:
    """How much longer the first takes, pair by pair.

    Two requests in a row find the machine equally busy. On a busy one the medians of all times of
    one and the same request are apart by more than what is looked for here.
    """
    gc.collect()
    gc.disable()
    try:
        for number in range(PAIRS):
            # Whoever comes second may find something warm.
            if number % 2:
                one, other = _seconds(first), _seconds(second)
            else:
                other, one = _seconds(second), _seconds(first)
            yield one / other
    finally:
        gc.enable()


def _seconds(ask: Ask) -> float:
    start = perf_counter()
    ask()
    return perf_counter() - start


@pytest.mark.parametrize(
    ("role", "action"),
    [
        ("user", "increment"),
        pytest.param("user", "", marks=SLOW),
        pytest.param("staff", "", marks=SLOW),
        pytest.param("anonymous", "", marks=SLOW),
        pytest.param("anonymous", "increment", marks=SLOW),
    ],
)
def test_forbidden_by_permission_and_unknown(role: str, action: str, as_: As) -> None:
    Counter.objects.increment("guarded:a")
    client = as_(role)
    ask = client.do if action else (lambda _, key: client.at(key))
    assert_alike(
        lambda: ask(action, "guarded:a"),
        lambda: ask(action, "nothere:a"),
        401 if role == "anonymous" else 404,
    )


@pytest.mark.parametrize("namespace", ["secret", pytest.param("inside", marks=SLOW)])
def test_forbidden_by_another_rule_and_unknown(namespace: str, as_: As) -> None:
    Counter.objects.increment(f"{namespace}:a")
    user, unknown = as_("user"), "x" * len(namespace)
    assert_alike(
        lambda: user.do("increment", f"{namespace}:a"),
        lambda: user.do("increment", f"{unknown}:a"),
        404,
    )


@SLOW
def test_a_field_that_is_forbidden_and_one_that_is_not_exposed(as_: As) -> None:
    expose(Post, "likes", read="permission", increment="permission")
    key, user = f"testapp.Post.likes:{Post.objects.create().pk}", as_("user")
    other = key.replace("likes", "views")
    assert_alike(lambda: user.do("increment", key), lambda: user.do("increment", other), 404)


def test_a_record_that_is_hidden_and_one_that_there_is_not(as_: As) -> None:
    hidden = Post.objects.create(title="draft").pk
    expose(Post, "likes", **OPEN, records=Post.objects.filter(title="published"))
    user = as_("user")
    one, other = (f"testapp.Post.likes:{pk}" for pk in (hidden, hidden + 1))
    assert_alike(lambda: user.at(one), lambda: user.at(other), 404)


@SLOW
def test_one_of_a_bulk_that_is_forbidden_and_one_that_is_unknown(as_: As) -> None:
    Counter.objects.increment("guarded:a")
    user = as_("user")
    one, other = (
        {"counters": [{"key": "likes:a"}, {"key": key}]} for key in ("guarded:a", "nothere:a")
    )
    assert_alike(lambda: user.bulk("increment", one), lambda: user.bulk("increment", other), 404)
    first, second = ({"keys": ["likes:a", key]} for key in ("guarded:a", "nothere:a"))
    assert_alike(lambda: user.bulk("read", first), lambda: user.bulk("read", second), 200)
