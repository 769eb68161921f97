"""How a counter went, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from django_counters import clock
from django_counters.models import CounterDelta, CounterSample
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.rest.conftest import OPEN, As, problem

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]
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
    assert body["points"][-3:] == [
        {"moment": hours[0], "value": 5, "change": 5},
        {"moment": hours[1], "value": 5, "change": 0},
        {"moment": hours[2], "value": 7, "change": 2},
    ]


def test_what_is_recorded_is_shown_by_day(as_: As) -> None:
    with (
        override_counters(sales={"HISTORY": "1d", "API": OPEN}),
        override_settings(TIME_ZONE="UTC"),
    ):
        for days, value in ((2, 10), (1, 40)):
            moment = clock.shown(NOW - days * DAY)
            CounterSample.objects.create(key="sales:a", moment=moment, value=value)
        body = as_("anonymous").at("sales:a", "history?by=day").json()
    assert (body["by"], body["source"]) == ("day", "recorded")
    midnights = [f"{NOW - ago * DAY:%Y-%m-%d}T00:00:00.000000Z" for ago in (2, 1, 0)]
    assert body["points"] == [
        {"moment": midnights[0], "value": 10, "change": None},
        {"moment": midnights[1], "value": 40, "change": 30},
        {"moment": midnights[2], "value": 40, "change": 0},
    ]


@pytest.mark.parametrize("by", ["", "?by=hour", "?by=day"])
def test_where_nothing_is_recorded_there_is_nothing(by: str, as_: As) -> None:
    body = as_("anonymous").at("likes:a", f"history{by}").json()
    assert (body["source"], body["points"]) == ("none", [])


@pytest.mark.parametrize("by", ["", "year", "HOUR", "1h", "%00", "%F0%9F%91%8D", "x" * 9000])
def test_what_is_no_period(by: str, as_: As) -> None:
    body = problem(as_("anonymous").at("likes:a", f"history?by={by}"), 400, "invalid")
    assert [error["field"] for error in body["errors"]] == ["by"]


def test_a_record_has_none(fields: dict[str, str], as_: As) -> None:
    for key in fields.values():
        problem(as_("superuser").at(key, "history"), 404)
