"""Corrections over HTTP: each leaves a row that says who, what and why."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from django_counters.models import Counter, CounterAdjustment
from tests.adjustments.adjustables import assert_sound
from tests.rest.conftest import API_TESTS, KINDS, As, problem

pytestmark = API_TESTS


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_set_right_and_written_down(kind: str, keys: dict[str, str], as_: As) -> None:
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
    assert root.do("adjust", key, {"by": -10, "reason": "a stocktake"}).json()["value"] == 30
    assert_sound()


@pytest.mark.parametrize("kind", ["exact", "cached", "cached field"])
def test_what_has_changed_meanwhile_is_told(kind: str, keys: dict[str, str], as_: As) -> None:
    root, key = as_("superuser"), keys[kind]
    root.do("increment", key, {"by": 7})
    answer = root.do("adjust", key, {"to": 40, "expected": 6, "reason": "a stocktake"})
    body = problem(answer, 409, "value-changed")
    assert (body["key"], body["expected"], body["current"]) == (key, 6, 7)
    assert root.at(key, "exact").json()["value"] == 7
    assert not CounterAdjustment.objects.exists()


# What the schema cannot say; tests/rest/test_schemathesis.py sends what it can.
WRONG: list[tuple[dict[str, Any] | None, str]] = [
    (None, "reason"),
    ({"to": 5, "reason": "  "}, "reason"),
    ({"to": 5, "reason": "x" * 100_000}, "reason"),
    ({"reason": "a stocktake"}, ""),
    ({"to": 5, "by": 5, "reason": "a stocktake"}, ""),
    ({"by": 0, "reason": "a stocktake"}, "by"),
    ({"by": True, "reason": "a stocktake"}, "by"),
    ({"to": 5.0, "reason": "a stocktake"}, "to"),
    ({"to": None, "reason": "a stocktake"}, "to"),
    ({"to": 2**63, "reason": "a stocktake"}, "to"),
    ({"to": 5, "expected": "7", "reason": "a stocktake"}, "expected"),
    ({"to": 5, "reason": "a stocktake", "case": "x" * 100_000}, "case"),
    ({"to": 5, "reason": "a stocktake", "actor": "ann"}, "actor"),
    ({"to": 5, "reason": "x\0y"}, "reason"),
]


def test_what_is_no_order(as_: As) -> None:
    root = as_("superuser")
    for body, field in WRONG:
        told = problem(root.do("adjust", "likes:a", body), 400, "invalid")
        assert {error["field"] for error in told["errors"]} == {field}, body
    assert not Counter.objects.exists()
