"""How a counter went, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from django_counters import clock
from django_counters.models import CounterDelta
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.rest.conftest import API_TESTS, OPEN, As, problem

pytestmark = API_TESTS
# Tokens are those of the present; half past, for nothing shall begin meanwhile.
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - HOUR


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "utc", lambda: NOW)


def test_a_ledger_knows_each_hour(as_: As) -> None:
    entries = [("orders:a", 5, mint(NOW - 2 * HOUR)), ("orders:a", 2, mint(NOW))]
    CounterDelta.objects.append_many(entries)
    with override_settings(TIME_ZONE="Europe/Vienna"):
        answer = as_("anonymous").at("orders:a", "history")
    assert answer["Cache-Control"] == "public, max-age=60"
    body = answer.json()
    assert (body["key"], body["by"], body["source"]) == ("orders:a", "hour", "ledger")
    # Moments are in UTC, wherever the project is.
    hours = [f"{NOW - ago * HOUR:%Y-%m-%dT%H}:00:00.000000Z" for ago in (2, 1, 0)]
    assert len(body["points"]) == 24
    assert body["points"][-3:] == [
        {"moment": hours[0], "value": 5, "change": 5},
        {"moment": hours[1], "value": 5, "change": 0},
        {"moment": hours[2], "value": 7, "change": 2},
    ]


def test_what_is_no_period(as_: As) -> None:
    for by in ("", "year", "HOUR", "1h", "%00", "%F0%9F%91%8D", "x" * 9000):
        body = problem(as_("anonymous").at("likes:a", f"history?by={by}"), 400, "invalid")
        assert [error["field"] for error in body["errors"]] == ["by"], by


def test_a_record_has_none(fields: dict[str, str], as_: As) -> None:
    for key in fields.values():
        problem(as_("superuser").at(key, "history"), 404)


def test_who_may_read_may_not_see_the_history(as_: As) -> None:
    with override_counters(orders={"STRATEGY": "ledger", "API": OPEN}):
        found = [as_(role).at("orders:a", "history").status_code for role in ("anonymous", "user")]
    assert found == [401, 403]
