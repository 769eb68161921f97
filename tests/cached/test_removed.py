"""The database check names increments that wait in Redis though no counter is cached any longer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.models import Counter
from django_counters.redis import keys
from django_counters.testing import override_counters
from tests.cached.test_metrics import NOBODY

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]


class WithoutFields:
    """Keeps the models that have cached fields out of each database."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label in ("testapp", "blog") else None


@pytest.fixture(autouse=True)
def without_fields() -> Iterator[None]:
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.WithoutFields"]):
        yield


def errors() -> list[str]:
    found = run_checks(databases=["default"])
    return [one.msg for one in found if one.id == "counters.E067"]


def wait_for(minutes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An increment has waited for so long in a Redis server that was flushed before."""

    def earlier() -> datetime:
        return clock.utc() - timedelta(minutes=minutes)

    with monkeypatch.context() as patch:
        patch.setattr(keys, "utc", earlier)
        flush()
        Counter.objects.increment("views:a")


def test_what_waits_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for(20, monkeypatch)
    assert errors() == []
    with override_counters(views={}):
        (error,) = errors()
        assert error.startswith("Increments of 1 counters have waited in Redis default#")
        assert error.endswith(" for over 10 minutes, and no counter is cached any longer.")
        assert Counter.objects.value("views:a") == 0
        with pytest.raises(SystemCheckError, match=r"counters\.E067"):
            call_command("check", databases=["default"])
        flush()
        assert errors() == []
        assert Counter.objects.value("views:a") == 1


def test_what_a_flush_may_still_bring_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old processes may count while new ones are started: a flush comes every ten seconds."""
    wait_for(5, monkeypatch)
    with override_counters(views={}):
        assert errors() == []


def test_increments_of_another_database_are_not_ours(
    cached: str, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for(20, monkeypatch)
    server.set(slots_of("default", cached).owner, "12 another")
    with override_counters(views={}):
        assert errors() == []


def test_a_server_that_does_not_answer_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for(20, monkeypatch)
    with override_settings(CACHES=NOBODY), override_counters(views={}):
        assert errors() == []
