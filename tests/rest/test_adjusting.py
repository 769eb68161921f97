"""Corrections over HTTP: each leaves a row that says who, what and why."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import override_counters
from tests.kinds.adjustables import assert_sound
from tests.rest.conftest import NAMED, NAMESPACES, As, problem

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]
FIELDS = ("exact field", "slotted field", "cached field")


@pytest.fixture
def keys(fields: dict[str, str]) -> dict[str, str]:
    return {**NAMED, **fields}


@pytest.mark.parametrize("kind", [*NAMED, *FIELDS])
class TestEveryKind:
    def test_it_is_set_right_and_written_down(
        self, kind: str, keys: dict[str, str], as_: As
    ) -> None:
        root, key = as_("superuser"), keys[kind]
        root.do("increment", key, {"by": 7})
        order = {"to": 40, "expected": 7, "reason": "a stocktake", "case": "T-1"}
        answer = root.do("adjust", key, order)
        assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
        body = answer.json()
        told = {n: body[n] for n in ("key", "before", "value", "applied", "consistency")}
        assert told == {
            "key": key,
            "before": 7,
            "value": 40,
            "applied": 33,
            "consistency": "exact",
        }
        (row,) = CounterAdjustment.objects.all()
        assert (row.before, row.after, row.delta) == (7, 40, 33)
        assert (row.reason, row.case, row.number) == ("a stocktake", "T-1", body["number"])
        user = User.objects.get()
        assert (row.actor_id, row.actor_name) == (str(user.pk), user.username)
        assert root.at(key, "exact").json()["value"] == 40
        assert root.do("adjust", key, {"by": -10, "reason": "x"}).json()["value"] == 30
        assert_sound()

    def test_what_has_changed_meanwhile_is_told(
        self, kind: str, keys: dict[str, str], as_: As
    ) -> None:
        root, key = as_("superuser"), keys[kind]
        root.do("increment", key, {"by": 7})
        answer = root.do("adjust", key, {"to": 40, "expected": 6, "reason": "a stocktake"})
        body = problem(answer, 409, "value-changed")
        assert (body["key"], body["expected"], body["current"]) == (key, 6, 7)
        assert root.at(key, "exact").json()["value"] == 7
        assert not CounterAdjustment.objects.exists()

    def test_with_a_key_it_is_done_once(self, kind: str, keys: dict[str, str], as_: As) -> None:
        root, key = as_("superuser"), keys[kind]
        order, once = {"by": 5, "reason": "found"}, {"HTTP_IDEMPOTENCY_KEY": "k-1"}
        first = root.do("adjust", key, order, **once)
        again = root.do("adjust", key, order, **once)
        assert (first.status_code, again.status_code) == (200, 200)
        assert "Idempotent-Replayed" not in first.headers
        assert again["Idempotent-Replayed"] == "true"
        assert again.json() == {**first.json(), "replayed": True}
        another = root.do("adjust", key, {**order, "by": 6}, **once)
        problem(another, 422, "idempotency-key-reused")
        assert CounterAdjustment.objects.count() == 1
        assert root.at(key, "exact").json()["value"] == 5


WRONG: list[tuple[dict[str, Any] | list[Any] | None, str]] = [
    (None, "reason"),
    ({}, "reason"),
    ([], ""),
    ({"to": 5}, "reason"),
    ({"to": 5, "reason": ""}, "reason"),
    ({"to": 5, "reason": "  "}, "reason"),
    ({"to": 5, "reason": None}, "reason"),
    ({"to": 5, "reason": 5}, "reason"),
    ({"to": 5, "reason": "x" * 100_000}, "reason"),
    ({"reason": "x"}, ""),
    ({"to": 5, "by": 5, "reason": "x"}, ""),
    ({"by": 0, "reason": "x"}, "by"),
    ({"by": True, "reason": "x"}, "by"),
    ({"to": 5.0, "reason": "x"}, "to"),
    ({"to": None, "reason": "x"}, "to"),
    ({"to": 2**63, "reason": "x"}, "to"),
    ({"to": 5, "expected": "7", "reason": "x"}, "expected"),
    ({"to": 5, "reason": "x", "case": "x" * 100_000}, "case"),
    ({"to": 5, "reason": "x", "actor": "ann"}, "actor"),
    ({"to": 5, "reason": "x\0y"}, "reason"),
]


@pytest.mark.parametrize(("body", "field"), WRONG)
def test_what_is_no_order(body: Any, field: str, as_: As) -> None:
    told = problem(as_("superuser").do("adjust", "likes:a", body), 400, "invalid")
    assert {error["field"] for error in told["errors"]} == {field}
    assert not Counter.objects.exists()


def test_a_large_one_needs_a_second_person(as_: As) -> None:
    stock = {**NAMESPACES["stock"], "CEILING": 10_000, "APPROVE_ABOVE": 100}
    with override_counters(stock=stock):
        root = as_("superuser")
        assert root.do("adjust", "stock:a", {"to": 100, "reason": "x"}).status_code == 200
        answer = root.do("adjust", "stock:a", {"to": 201, "reason": "x"})
        body = problem(answer, 403, "approval-required")
        assert (body["delta"], body["limit"]) == (101, 100)
        assert root.at("stock:a", "exact").json()["value"] == 100


def test_bounds_hold(as_: As) -> None:
    root = as_("superuser")
    body = problem(
        root.do("adjust", "stock:a", {"by": -1, "reason": "x"}), 409, "insufficient-count"
    )
    assert (body["available"], body["floor"]) == (0, 0)
    body = problem(
        root.do("adjust", "stock:a", {"to": 101, "reason": "x"}), 409, "ceiling-exceeded"
    )
    assert (body["available"], body["ceiling"]) == (100, 100)


def test_a_key_that_is_used_by_another_is_another_key(as_: As) -> None:
    order, once = {"by": 5, "reason": "found"}, {"HTTP_IDEMPOTENCY_KEY": "k-1"}
    for value in (5, 10):
        answer: Any = as_("permitted").do("adjust", "likes:a", order, **once)
        assert answer.json()["value"] == value
    names = CounterAdjustment.objects.order_by("number").values_list("actor_name", flat=True)
    assert len(set(names)) == 2


def test_a_recount_that_finds_what_there_is_leaves_a_row_too(as_: As) -> None:
    root = as_("superuser")
    root.do("increment", "likes:a", {"by": 5})
    answer = root.do("adjust", "likes:a", {"to": 5, "reason": "counted again"})
    body = answer.json()
    assert (answer.status_code, body["before"], body["applied"]) == (200, 5, 0)
    assert CounterAdjustment.objects.get().delta == 0
    assert root.at("likes:a").json()["value"] == 5
