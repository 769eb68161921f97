"""The database check names pending entries if no namespace has a ledger and no rollup runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings

from django_counters import clock
from django_counters.models import Counter, CounterHorizon
from django_counters.testing import override_counters
from django_counters.upkeep import rollup

pytestmark = pytest.mark.django_db
MESSAGE = (
    "2 entries of the ledger wait, no namespace of COUNTERS has a ledger, and no rollup has run "
    "for 10 minutes."
)


@pytest.fixture(autouse=True)
def nothing_declared() -> Iterator[None]:
    with override_settings(COUNTERS={}):
        yield


def errors() -> list[str]:
    found = run_checks(databases=["default"])
    return [one.msg for one in found if one.id == "counters.E066"]


def append() -> None:
    with override_counters(orders={"STRATEGY": "ledger"}):
        Counter.objects.increment("orders:a", 2)
        Counter.objects.increment("orders:b", 3)
        assert errors() == []


def test_entries_are_rolled_up_before_the_ledger_is_removed() -> None:
    assert errors() == []
    append()
    assert errors() == [MESSAGE]
    with pytest.raises(SystemCheckError, match=r"counters\.E066"):
        call_command("check", databases=["default"])
    assert Counter.objects.value("orders:a") == 2
    rollup()
    assert errors() == []
    assert Counter.objects.increment("orders:a") == 3


def test_it_can_be_removed_while_others_append_and_rollups_run() -> None:
    rollup()
    append()
    assert errors() == []
    CounterHorizon.objects.update(rolled_up_at=clock.now() - timedelta(minutes=11))
    assert errors() == [MESSAGE]


@pytest.mark.parametrize("strategy", ["ledger", "cached"])
def test_a_namespace_whose_entries_wait_is_enough(strategy: str) -> None:
    append()
    with override_counters(other={"STRATEGY": strategy}):
        assert errors() == []


def test_a_wrong_setting_is_reported_alone() -> None:
    append()
    with override_settings(COUNTERS={"other": {"STRATEGY": "exakt"}}):
        assert errors() == []
