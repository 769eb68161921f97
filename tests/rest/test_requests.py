"""The requests for adjustments of a namespace or of a field, page by page."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.http import urlsafe_base64_encode

from django_counters.adjustments import approval
from django_counters.adjustments.rest import RequestsView
from django_counters.models import AdjustmentRequest
from django_counters.rest import expose
from django_counters.write.changes import named
from tests.limits.test_throttling import throttle
from tests.rest.conftest import ALL, API_TESTS, Client, problem
from tests.rest.two import ask, come, decide, listed
from tests.testapp.models import Country

pytestmark = [*API_TESTS, pytest.mark.usefixtures("two_people")]


def test_pages(clerk: Client, boss: Client) -> None:
    other = come("ann", "adjust_counter")
    numbers = [ask(who, f"stock:{turn}")["id"] for turn in "abc" for who in (clerk, other)]
    # Namespaces whose names begin alike, and counters of fields, are others.
    for key, field in (("stocks:a", ""), ("stock", ""), ("stock:z", "testapp.Post.likes")):
        AdjustmentRequest._base_manager.create(
            **{"key": key, "field": field, "by": 1, "expected": 0, "requester_name": "x"}
        )
    found, answer = [], listed(boss, limit=4)
    assert (answer["Cache-Control"], answer["Vary"]) == (
        *("private, no-cache", "Authorization, Cookie"),
    )
    assert answer.json()["previous"] is None
    found += answer.json()["results"]
    # What comes meanwhile moves nothing.
    ask(clerk, "stock:d")
    last = boss.get(answer.json()["next"]).json()
    assert last["next"] is None
    found += last["results"]
    assert [one["id"] for one in found] == numbers[::-1]
    own = listed(clerk, limit=2).json()
    assert {one["requester"] for one in own["results"]} == {"clerk"}
    assert len(clerk.get(own["next"]).json()["results"]) == 2


def test_a_state(clerk: Client, boss: Client) -> None:
    numbers = [ask(clerk, f"stock:{name}")["id"] for name in "abc"]
    decide(boss, numbers[0])
    decide(boss, numbers[1], "reject")
    found = {
        state: [one["id"] for one in listed(boss, state=state).json()["results"]]
        for state in ("approved", "rejected", "waiting")
    }
    assert found == dict(zip(found, ([number] for number in numbers), strict=True))


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"namespace": ""}, "namespace"),
        ({"state": "open"}, "state"),
        ({"limit": "501"}, "limit"),
        ({"page": "2"}, "page"),
        *(
            ({"cursor": urlsafe_base64_encode(text)}, "cursor")
            for text in (b"stock:a", b"0", b"07", b"-1", b"1.0", b"\xd9\xa1", b"")
        ),
        ({"cursor": "!"}, "cursor"),
    ],
)
def test_what_is_wrong(parameters: dict[str, Any], field: str, boss: Client) -> None:
    answer = listed(boss, **{"namespace": "stock", **parameters})
    assert {one["field"] for one in problem(answer, 400, "invalid")["errors"]} == {field}


def test_a_cursor_beyond_all_numbers(clerk: Client, boss: Client) -> None:
    number = ask(clerk)["id"]
    cursor = urlsafe_base64_encode(b"9" * 30)
    assert [one["id"] for one in listed(boss, cursor=cursor).json()["results"]] == [number]


def test_the_beginning_of_a_key_is_no_namespace(clerk: Client, boss: Client) -> None:
    """It would be one of counters, whose names may be those of records."""
    ask(clerk, "stock:a:b")
    problem(listed(boss, "stock:a"), 404)
    record = Country.objects.create(code="a:b")
    expose(Country, "visits", **ALL)
    name = f"testapp.Country.visits:{record.pk}"
    approval.ask(named(name), by=500, reason="a stocktake", actor="somebody")
    problem(listed(boss, "testapp.Country.visits:a"), 404)


def test_where_there_is_none(boss: Client) -> None:
    for namespace in ("nowhere", "secret", "default", "testapp.Post.likes"):
        problem(listed(boss, namespace), 404)


def test_it_costs_as_much_for_many(clerk: Client, boss: Client) -> None:
    for number in range(3):
        ask(clerk, f"stock:{number}")
    listed(boss)
    costs = []
    for limit in (1, 3):
        with CaptureQueriesContext(connection) as queries:
            assert len(listed(boss, limit=limit).json()["results"]) == limit
        costs.append(len(queries))
    assert costs[0] == costs[1]


def test_it_is_throttled_as_other_reads(boss: Client) -> None:
    with patch.object(RequestsView, "throttle_classes", [throttle(rate="1/day", cache=None)]):
        assert [listed(boss).status_code for _ in range(2)] == [200, 429]
