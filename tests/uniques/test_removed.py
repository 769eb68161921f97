"""The database check names members and sets that are left; fields name the app that is absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import modify_settings

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.uniques import CounterMember, CounterUnique
from django_counters.contrib.uniques.sketches import KEPT
from django_counters.fields import CounterField
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import forget_actor

pytestmark = pytest.mark.django_db
APP = "django_counters.contrib.uniques"
CACHED: dict[str, Any] = {"STRATEGY": "cached", "PER": ["day"], "OPTIONS": {"timeout": 10}}


def errors() -> list[str]:
    found = run_checks(databases=["default"])
    return [one.msg for one in found if one.id == "counters.E063"]


def test_people_are_not_left_behind() -> None:
    with override_counters(visits={"UNIQUE": ["day"]}):
        Counter.objects.increment("visits:site", who="ann")
    assert errors() == []
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        forget_actor("ann")
        [message] = errors()
    assert message.startswith(f"{APP!r} isn't installed, and its tables still have members")
    assert message.endswith("run manage.py migrate django_counters_uniques zero, and remove it.")
    forget_actor("ann")
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        assert errors() == []


def test_periods_of_a_field_make_no_unique_column() -> None:
    """Django has a flag of this name."""
    with (
        modify_settings(INSTALLED_APPS={"remove": APP}),
        pytest.raises(ImproperlyConfigured, match=f"unique needs '{APP}' in INSTALLED_APPS"),
    ):
        CounterField(unique=["day"])


def count_once() -> int:
    for who in ("ann", "bob"):
        Counter.objects.increment("visits:site", 4, who=who, token=mint(clock.utc()))
    return 8


def count_few() -> int:
    Counter.objects.increment("visits:site", 8, who="ann")
    return 8


def count_many() -> int:
    """More people than have a field each."""
    with Counter.objects.collect():
        for who in range(KEPT + 10):
            Counter.objects.increment("visits:site", who=who)
    return KEPT + 10


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("count", [count_once, count_few, count_many])
class TestWhileIncrementsWaitInRedis:
    """The app is removed before these are flushed."""

    @pytest.fixture(autouse=True)
    def counted(self, count: Callable[[], int], cached: str) -> Iterator[int]:
        with override_counters(visits={**CACHED, "UNIQUE": ["day"]}):
            total = count()
        with modify_settings(INSTALLED_APPS={"remove": APP}), override_counters(visits=CACHED):
            yield total
        assert not CounterMember.objects.exists()
        assert not CounterUnique.objects.exists()

    def test_people_alone_are_quarantined(self, counted: int) -> None:
        report = flush()
        assert (report.quarantined, report.away) == ({}, {})
        assert Counter.objects.value("visits:site") == counted
        assert sum(cell.value for cell in CounterCell.objects.all()) == counted
        assert CounterIncident.objects.exists()
        for incident in CounterIncident.objects.all():
            assert (incident.kind, incident.detail["reason"]) == ("quarantined", "strange")
        assert flush().generations == 0
        assert Counter.objects.value("visits:site") == counted

    def test_the_counter_can_be_forgotten(self, counted: int) -> None:
        assert Counter.objects.forget("visits:site") == counted
        assert flush().quarantined == {}
        assert Counter.objects.value("visits:site") == 0
        assert not [cell for cell in CounterCell.objects.all() if cell.value]
        assert not CounterIncident.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("cached")
def test_a_token_that_waits_counts_once_without_the_app() -> None:
    token = mint(clock.utc())
    with override_counters(visits={**CACHED, "UNIQUE": ["day"]}):
        Counter.objects.increment("visits:site", 4, who="ann", token=token)
    with modify_settings(INSTALLED_APPS={"remove": APP}), override_counters(visits=CACHED):
        flush()
        (incident,) = CounterIncident.objects.all()
        ((name, text),) = incident.detail["fields"].items()
        assert name == f"\\0k{token.hex}"
        assert text.startswith("#")
        assert text.endswith("visits:site")
    with override_counters(visits={**CACHED, "UNIQUE": ["day"]}):
        again = Counter.objects.increment("visits:site", 4, who="ann", token=token)
        assert (int(again), again.replayed) == (4, True)
        flush()
        assert Counter.objects.value("visits:site") == 4
