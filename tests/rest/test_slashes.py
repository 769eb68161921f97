"""A slash at the end of an address is a slip of the client, and no other counter."""

from __future__ import annotations

import pytest

from django_counters.models import Counter
from tests.rest.conftest import As, problem

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]


@pytest.mark.parametrize("who", ["anonymous", "user", "superuser"])
def test_it_is_refused(as_: As, who: str) -> None:
    client = as_(who)
    actions = ("increment", "decrement", "adjust", "increment/", "decrement/", "adjust/")
    reads = ("", "exact", "history", "series", "exact/", "history/", "series/")
    answers = [client.at("likes:tea/", action) for action in reads]
    answers += [client.at("likes:tea", "exact/"), client.do("increment/", "likes:tea")]
    answers += [client.do(action, "likes:tea/") for action in actions]
    for answer in answers:
        (error,) = problem(answer, 400, "invalid")["errors"]
        assert (error["field"], "slash" in error["detail"]) == ("key", True)
    assert not Counter.objects.exists()


def test_a_bulk_takes_a_key_that_ends_with_one(as_: As) -> None:
    user = as_("user")
    user.bulk("increment", {"counters": [{"key": "likes:/about/", "by": 3}]})
    (read,) = user.bulk("read", {"keys": ["likes:/about/"]}).json()["counters"]
    assert (read["key"], read["value"]) == ("likes:/about/", 3)
