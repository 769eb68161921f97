"""An app adds two kinds of rows, which are written in the statement of a change."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter as Tally
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import modify_settings, override_settings
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.checks import check_apps
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.series.options import SUM
from django_counters.contrib.series.upkeep import prune_cells
from django_counters.effects import kinds
from django_counters.measure import Kind
from django_counters.models import Counter, CounterIncident, CounterMeasure
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import rollup
from tests.extension.models import Party, Streak, Tagged
from tests.extension.streaks import STREAK, TAGGED
from tests.extension.test_failing import second
from tests.series.cells import STRATEGIES, land
from tests.series.test_occurrences import Chance

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
APP = "tests.extension"
DECLARED: dict[str, Any] = {
    "TAGS": {"country": 2},
    "STREAKS": ["day"],
    "TAGGED": ["day", "week"],
}
DAY = CounterCell.Period.DAY


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    with override_counters(hits={"STRATEGY": request.param, **DECLARED}):
        yield str(request.param)


@pytest.fixture(params=["after the core", "before the core"])
def _place(request: pytest.FixtureRequest) -> Iterator[None]:
    others = [app for app in settings.INSTALLED_APPS if app != APP]
    first = request.param == "before the core"
    with override_settings(INSTALLED_APPS=[APP, *others] if first else [*others, APP]):
        yield


def upkeep() -> None:
    """Let come to the rows what waits elsewhere."""
    land()
    rollup()


def sums(rows: type[Streak | Tagged]) -> dict[Any, int]:
    """The sums of days by key, start and tags."""
    found: Tally[Any] = Tally()
    for row in rows._base_manager.filter(period=DAY):
        found[row.key, row.start.astimezone(UTC), row.tags or None] += row.value
    return {where: value for where, value in found.items() if value}


@pytest.mark.usefixtures("_place")
def test_whatever_happens_they_are_right(strategy: str) -> None:
    chance = Chance(11)
    for turn in range(60):
        chance.change()
        if turn % 20 == 0:
            upkeep()
    upkeep()
    assert sums(Streak) == chance.number
    assert sums(Tagged) == {where: value for where, value in chance.value.items() if value}
    assert set(Streak.objects.values_list("period", flat=True)) == {DAY}
    week = Tagged.objects.filter(period=CounterCell.Period.WEEK)
    assert sum(row.value for row in week) == sum(chance.value.values())


@pytest.mark.usefixtures("_place")
def test_each_change_writes_them_last() -> None:
    assert [*kinds()][-2:] == [STREAK, TAGGED]


@pytest.mark.postgresql
def test_one_statement() -> None:
    with override_counters(hits=DECLARED):
        # The first two also ask for the measure and for its tags.
        for _ in range(2):
            Counter.objects.increment("hits:a", tags={"country": "DE"})
        with CaptureQueriesContext(connection) as queries:
            Counter.objects.increment("hits:a", tags={"country": "DE"})
    [statement] = [one["sql"] for one in queries]
    assert "django_counters_add_tagged(django_counters_add_streak(" in statement


def test_they_are_kept_as_long_as_their_cells(strategy: str) -> None:
    for days in (0, 60):
        Counter.objects.increment("hits:a", 3, at=clock.utc() - timedelta(days=days))
    upkeep()
    assert (len(sums(Streak)), len(sums(Tagged))) == (2, 2)
    with override_counters(hits={"STRATEGY": strategy, **DECLARED, "KEEP": {"day": 40}}):
        prune_cells()
    ([streak], [tagged]) = sums(Streak).values(), sums(Tagged).values()
    assert (streak, tagged) == (1, 3)
    since = CounterMeasure.objects.get(name="hits").periods
    assert since["streaks day"] == since["day"]


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "waiting"])
def test_they_are_forgotten_with_their_counter(strategy: str, landed: bool) -> None:
    for key in ("hits:a", "hits:b"):
        for country in ("DE", None):
            Counter.objects.increment(key, 5, tags={"country": country})
    if landed:
        upkeep()
    assert Counter.objects.forget("hits:a") == 10
    upkeep()
    for rows, left in ((Streak, 1), (Tagged, 5)):
        assert {(key, tags): by for (key, _, tags), by in sums(rows).items()} == {
            ("hits:b", "DE"): left,
            ("hits:b", None): left,
        }
        assert not landed or not rows._base_manager.filter(key="hits:a").exists()


def test_the_rest_lands_if_the_app_is_removed_while_they_wait_in_redis() -> None:
    """Else a token's amount would be in an incident, with all of its periods."""
    for key in ("hits:a", "hits:b"):
        with override_counters(hits={"STRATEGY": "cached", **DECLARED}):
            Counter.objects.increment(key, 5)
            Counter.objects.increment(key, 4, token=mint(clock.utc()))
    with (
        modify_settings(INSTALLED_APPS={"remove": APP}),
        override_counters(hits={"STRATEGY": "cached", "PER": ["day"]}),
    ):
        assert Counter.objects.forget("hits:a") == 9
        assert flush().quarantined == {}
        assert Counter.objects.values_of(["hits:a", "hits:b"]) == {"hits:a": 0, "hits:b": 9}
        assert {c.key: c.value for c in CounterCell.objects.all() if c.value} == {"hits:b": 9}
    assert all(one.detail["reason"] == "strange" for one in CounterIncident.objects.all())
    assert not Streak.objects.exists()


def test_a_check_names_the_app_that_makes_them() -> None:
    assert check_apps() == []
    absent = [f"django_counters.contrib.{name}" for name in ("series", "top", "uniques")]
    with modify_settings(INSTALLED_APPS={"remove": absent}):
        (error,) = check_apps()
    needs = "needs 'django_counters.contrib.series' in INSTALLED_APPS."
    assert (error.id, error.msg) == ("counters.E062", f"Feature.kinds of {APP!r} {needs}")


def test_they_go_with_their_record() -> None:
    gone, kept = Party.objects.create(), Party.objects.create()
    for party in (gone, kept):
        party.dances.increment(2, tags={"song": "waltz"})
    gone.delete()
    for rows, left in ((Streak, 1), (Tagged, 2)):
        assert {(key, tags): by for (key, _, tags), by in sums(rows).items()} == {
            (str(kept.pk), "waltz"): left
        }


PLAIN = """
import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=[
        "tests.extension",
        "django.contrib.contenttypes",
        "django.contrib.auth",
        "django_counters",
        "django_counters.contrib.series",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    COUNTERS={"hits": {"STREAKS": ["day"], "TAGGED": ["day"]}},
)
django.setup()
from django.core.management import call_command
from django_counters.models import Counter
from tests.extension.models import Party, Streak, Tagged

call_command("check")
call_command("migrate", run_syncdb=True, verbosity=0)
call_command("check", databases=["default"])
for by in (3, 4):
    Counter.objects.increment("hits:a", by)
Party.objects.create().dances.increment()
for rows in (Streak, Tagged):
    print(*rows.objects.order_by("-value").values_list("key", "value"))
"""


def test_a_project_that_lists_the_app_first() -> None:
    command = [sys.executable, "-W", "error", "-c", PLAIN]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["('hits:a', 2) ('1', 1)", "('hits:a', 7) ('1', 1)"]


OTHER = replace(STREAK, name="other", mark="y", order=3000)


NONE = replace(OTHER, order=0)


@pytest.mark.parametrize(
    ("added", "first", "attribute"),
    [
        ([replace(OTHER, name="streak")], STREAK, "name 'streak'"),
        ([replace(OTHER, order=2000)], STREAK, "order 2000"),
        ([NONE, replace(NONE, name="more", mark="x")], NONE, "order 0"),
        ([replace(OTHER, mark="z")], STREAK, "mark 'z'"),
        ([replace(OTHER, mark="")], SUM, "mark ''"),
    ],
)
def test_kinds_of_two_apps_differ(
    added: list[Kind], first: Kind, attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(*kinds: Kind) -> None:
        both = {**apps.app_configs, "second": second(kinds=kinds)}
        monkeypatch.setattr(apps, "app_configs", both)

    install(OTHER)
    assert [*kinds()][-2:] == [TAGGED, OTHER]
    install(*added)
    names = rf"{first!r} \({first.table}\) and {added[-1]!r} \(moods_streak\)"
    with pytest.raises(ImproperlyConfigured, match=f"{names} have the same {attribute}"):
        kinds()
