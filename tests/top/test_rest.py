"""Which counters of a namespace have counted most, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.test import override_settings

from django_counters import clock
from django_counters.contrib.series.rest import MayReadHistory
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.testing import override_counters
from tests.rest.conftest import (
    ALL,
    API,
    API_TESTS,
    As,
    Client,
    as_,
    client,
    isolated,
    namespaces,
    problem,
)

pytestmark = API_TESTS
NOW = datetime(2024, 5, 16, 12, 30, tzinfo=UTC)
RANKED: dict[str, Any] = {"PER": ["hour"], "TOP": ["day"], "API": ALL}


@pytest.fixture(autouse=True)
def counted(namespaces: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    closed = {**RANKED, "API": {**ALL, "history": "staff"}}
    with (
        override_settings(TIME_ZONE="UTC"),
        override_counters(ranked=RANKED, closed=closed, unranked={"PER": ["day"], "API": ALL}),
    ):
        for number in range(1, 13):
            Counter.objects.increment(f"ranked:{number}", number)
            Counter.objects.increment(f"ranked:{number}", 20, at=NOW - timedelta(days=1, hours=2))
        Counter.objects.increment("ranked:new", 5)
        yield
    registry.forget_strategies()


def ask(who: Client, **parameters: Any) -> Any:
    return who.get(f"{API}/top", parameters)


def test_the_largest_come_first(client: Client) -> None:
    answer = ask(client, namespace="ranked", per="day", n=2)
    assert answer.status_code == 200
    body = answer.json()
    assert body.pop("as_of")
    assert body == {
        "namespace": "ranked",
        "per": "day",
        "counters": [
            {"key": "ranked:12", "value": 12, "before": None},
            {"key": "ranked:11", "value": 11, "before": None},
        ],
    }
    assert len(ask(client, namespace="ranked", per="day").json()["counters"]) == 10
    risen = ask(client, namespace="ranked", per="day", n=1, against=1).json()["counters"]
    assert risen == [{"key": "ranked:new", "value": 5, "before": 0}]


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"per": "day"}, "namespace"),
        ({"namespace": "ranked"}, "per"),
        ({"namespace": "ranked", "per": "year"}, "per"),
        *(
            ({"namespace": "ranked", "per": "day", name: wrong}, name)
            for name in ("n", "against")
            for wrong in ("0", "-1", "1.0", "1_0", "x", "1001", "", ["1", "2"])
        ),
        ({"namespace": "ranked", "per": "day", "where": "x"}, "where"),
    ],
)
def test_what_is_wrong(client: Client, parameters: dict[str, Any], field: str) -> None:
    found = problem(ask(client, **parameters), 400, "invalid")
    assert [one["field"] for one in found["errors"]] == [field]


def test_a_ranking_that_began_today(client: Client) -> None:
    with override_counters(ranked={**RANKED, "TOP": ["day", "month"]}):
        registry.forget_strategies()
        Counter.objects.increment("ranked:new", 5)
        problem(ask(client, namespace="ranked", per="month"), 404, "history-not-kept")
        problem(
            ask(client, namespace="ranked", per="month", partial="false"), 404, "history-not-kept"
        )
        answer = ask(client, namespace="ranked", per="month", partial="true")
        assert answer.json()["counters"] == [{"key": "ranked:new", "value": 5, "before": None}]
        wrong = problem(ask(client, namespace="ranked", per="month", partial="yes"), 400, "invalid")
        assert [one["field"] for one in wrong["errors"]] == ["partial"]


def test_what_is_not_ranked(client: Client) -> None:
    for name, per in (("ranked", "week"), ("unranked", "day"), ("likes", "day")):
        problem(ask(client, namespace=name, per=per), 400, "unsupported")


def test_who_may(client: Client, as_: As) -> None:
    problem(ask(as_("user"), namespace="closed", per="day"), 403)
    assert ask(as_("staff"), namespace="closed", per="day").json()["counters"] == []
    for name in ("secret", "unknown", "default", "testapp.Story.opens"):
        problem(ask(as_("superuser"), namespace=name, per="day"), 404)


def test_a_permission_may_look_at_each_counter(client: Client) -> None:
    def admits(self: Any, request: Any, view: Any, obj: Any) -> bool:
        return bool(obj.key != "ranked:12")

    with patch.object(MayReadHistory, "has_object_permission", admits):
        found = ask(client, namespace="ranked", per="day", n=2).json()["counters"]
    assert [one["key"] for one in found] == ["ranked:11"]
