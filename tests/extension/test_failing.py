"""An app fails, or declares something wrong: the others do their work, and a person is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection

from django_counters.contrib.holds.apps import Holds
from django_counters.features import Finding, Gauge, GaugeValue
from tests.extension.apps import SAD, Moods
from tests.extension.models import Mood
from tests.extension.test_extension import output, sampled

pytestmark = pytest.mark.django_db
HOLDS = "django_counters.contrib.holds"


def fail(*_: Any) -> Any:
    """As if a table were missing. PostgreSQL then refuses the rest of a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM no_such_table")


@pytest.fixture(autouse=True)
def holds_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks of the first app raise."""
    for hook in ("prune", "drifts", "findings", "inquiries"):
        monkeypatch.setattr(Holds, hook, fail)


def test_others_prune() -> None:
    Mood.objects.create(key="a", text="")
    with pytest.raises(CommandError, match=rf"{HOLDS} failed: \w+Error: .*no_such_table"):
        output("upkeep", "prune")
    assert not Mood.objects.exists()


def test_others_are_verified() -> None:
    Mood.objects.create(key="a", text="odd")
    with pytest.raises(CommandError, match=rf"a: 1, not 0; {HOLDS} failed: .*no_such_table"):
        output("verify")


def test_others_have_findings() -> None:
    for text in ("sad", "lonely"):
        Mood.objects.create(key="a", text=text)
    findings = json.loads(output("doctor", "--json"))
    failed = [one["action"] for one in findings if one["subject"] == HOLDS and one["needed"]]
    assert ["no_such_table" in action for action in failed] == [True, True]
    assert {"moods", "friends"} < {one["subject"] for one in findings}
    with pytest.raises(CommandError, match="ACT"):
        output("doctor", "--fail")


@pytest.mark.django_db(transaction=True)
def test_a_gauge_that_is_not_declared_is_left_out_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happy = Gauge("moods_happy_counters", "How many are.")

    def findings(*_: object) -> Iterator[Finding | GaugeValue]:
        yield GaugeValue(happy, (), 2)
        yield GaugeValue(SAD, ("sad",), 1)

    monkeypatch.setattr(Moods, "findings", findings)
    assert [sample.value for sample in sampled("default") if "moods" in sample.metric.name] == [1]
    assert "moods_happy_counters is not among the gauges of its app" in output("doctor")
