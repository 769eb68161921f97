"""What is forbidden takes as long as what there is not, so that the time tells nothing."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters.models import Counter
from django_counters.rest import expose
from tests.rest.conftest import API_TESTS, OPEN, As
from tests.testapp.models import Post

pytestmark = API_TESTS
PAIRS = 200
# Of the machine of a test nobody knows what else it does: a real difference is there each time.
ATTEMPTS = 3
MOST_APART = 0.05
Ask = Callable[[], Any]
# One that is forbidden, and one that is unknown.
KNOWN = ("guarded", "nothere")


def statements(ask: Ask) -> list[str]:
    """What a request asks the database, without what it asks for."""
    with CaptureQueriesContext(connection) as queries:
        ask()
    return [re.sub(r"'[^']*'|\d+", "?", query["sql"]) for query in queries]


@pytest.fixture
def timed(pytestconfig: pytest.Config) -> bool:
    """Whether it is also measured, which takes seconds: most with --slow only."""
    return bool(pytestconfig.getoption("--slow"))


def assert_alike(first: Ask, second: Ask, status: int, timed: bool) -> None:
    """Fail unless both ask the database alike and, if measured, take as long in the median."""
    assert first().status_code == second().status_code == status
    assert statements(first) == statements(second)
    if timed:
        assert_as_long(first, second)


def assert_as_long(first: Ask, second: Ask) -> None:
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
        *(("user", "increment"), ("user", ""), ("staff", "")),
        *(("anonymous", ""), ("anonymous", "increment")),
    ],
)
def test_forbidden_by_permission_and_unknown(role: str, action: str, as_: As, timed: bool) -> None:
    Counter.objects.increment("guarded:a")
    client = as_(role)
    ask = partial(client.do, action) if action else client.at
    status = 401 if role == "anonymous" else 404
    timed = timed or (role, action) == ("user", "increment")
    assert_alike(partial(ask, "guarded:a"), partial(ask, "nothere:a"), status, timed)


@pytest.mark.parametrize("namespace", ["secret", "inside"])
def test_forbidden_by_another_rule_and_unknown(namespace: str, as_: As, timed: bool) -> None:
    Counter.objects.increment(f"{namespace}:a")
    ask = partial(as_("user").do, "increment")
    unknown = f"{'x' * len(namespace)}:a"
    assert_alike(partial(ask, f"{namespace}:a"), partial(ask, unknown), 404, timed)


def test_a_field_that_is_forbidden_and_one_that_is_not_exposed(as_: As, timed: bool) -> None:
    expose(Post, "likes", read="permission", increment="permission")
    ask, pk = partial(as_("user").do, "increment"), Post.objects.create().pk
    one, other = (f"testapp.Post.{name}:{pk}" for name in ("likes", "views"))
    assert_alike(partial(ask, one), partial(ask, other), 404, timed)


def test_a_record_that_is_hidden_and_one_that_there_is_not(as_: As) -> None:
    hidden = Post.objects.create(title="draft").pk
    expose(Post, "likes", **OPEN, records=Post.objects.filter(title="published"))
    one, other = (f"testapp.Post.likes:{pk}" for pk in (hidden, hidden + 1))
    user = as_("user")
    assert_alike(partial(user.at, one), partial(user.at, other), 404, timed=True)


def test_one_of_a_bulk_that_is_forbidden_and_one_that_is_unknown(as_: As, timed: bool) -> None:
    Counter.objects.increment("guarded:a")
    read = partial(as_("user").bulk, "read")
    one, other = (partial(read, {"keys": ["likes:a", f"{name}:a"]}) for name in KNOWN)
    assert_alike(one, other, 200, timed)
    increment = partial(as_("user").bulk, "increment")
    one, other = (
        partial(increment, {"counters": [{"key": "likes:a"}, {"key": f"{name}:a"}]})
        for name in KNOWN
    )
    assert_alike(one, other, 404, timed)
