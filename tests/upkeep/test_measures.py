"""Measures keep their cells when fields get other names, and forget what is kept no longer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.contrib import series, uniques
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.series.upkeep import prune_cells
from django_counters.contrib.uniques import CounterMember, CounterUnique
from django_counters.errors import HistoryNotKept
from django_counters.models import Counter, CounterMeasure
from django_counters.registry import registry
from django_counters.testing import override_counters
from django_counters.upkeep import make_measures, rollup
from tests.series.cells import MEASURED, cells

pytestmark = pytest.mark.django_db(transaction=True)
KEEP: dict[str, Any] = {**MEASURED, "KEEP": {"hour": 3}}


class TestNames:
    def test_migrate_makes_them(self) -> None:
        CounterMeasure.objects.all().delete()
        registry.forget_strategies()
        with override_counters(hits=MEASURED):
            call_command("migrate", verbosity=0)
        names = set(CounterMeasure.objects.values_list("name", flat=True))
        assert {"hits", "testapp.Story.opens", "testapp.Story.reads"} <= names

    def test_a_field_that_got_another_name_keeps_its_cells(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As the migrations of the project say it."""
        CounterMeasure.objects.all().delete()
        old = CounterMeasure.objects.create(name="testapp.Story.seen", zone="UTC", tags=[])
        registry.forget_strategies()
        monkeypatch.setattr(
            "django_counters.upkeep.present_name",
            lambda name: "testapp.story.opens" if name == "testapp.Story.seen" else name.lower(),
        )
        make_measures("default")
        assert CounterMeasure.objects.get(name="testapp.Story.opens").pk == old.pk
        assert not CounterMeasure.objects.filter(name="testapp.Story.seen").exists()


class TestForgetting:
    def test_finer_cells_go_and_coarser_ones_stay(self) -> None:
        now = clock.utc()
        with override_counters(hits={**MEASURED, "KEEP": {"hour": 9}}):
            for days in range(8):
                Counter.objects.increment("hits:a", at=now - timedelta(days=days))
        with override_counters(hits=KEEP):
            assert prune_cells() == len([days for days in range(8) if days > 3])
            assert prune_cells() == 0
        assert sum(cells("hits:a", "hour").values()) == 4
        assert sum(cells("hits:a", "day").values()) == 8

    @pytest.mark.parametrize("folded", [True, False], ids=["in sets", "waiting"])
    def test_actors_go_too(self, folded: bool) -> None:
        now = clock.utc()
        kept = {**MEASURED, "UNIQUE": ["hour", "day"]}
        with override_counters(hits=kept):
            for days in range(8):
                Counter.objects.increment("hits:a", who=days, at=now - timedelta(days=days))
        if folded:
            rollup()
        with override_counters(hits={**kept, "KEEP": {"hour": 3}}):
            assert prune_cells() == 2 * len([days for days in range(8) if days > 3])
            assert prune_cells() == 0
            assert uniques.count(series.of("hits:a").per("day").last(8)) == 8
        found = sum(
            table.objects.filter(period=2).count() for table in (CounterMember, CounterUnique)
        )
        assert found == 4
        # Nobody takes them for nobody.
        with override_counters(hits=kept), pytest.raises(HistoryNotKept):
            uniques.points(series.of("hits:a").per("hour").last("7d"))

    def test_what_is_kept_for_ever_stays(self) -> None:
        ago = clock.utc() - timedelta(days=3000)
        with override_counters(hits=MEASURED):
            Counter.objects.increment("hits:a", at=ago)
            assert prune_cells() == 0
        assert CounterCell.objects.count() == 2

    def test_in_small_batches(self) -> None:
        now = clock.utc()
        with override_counters(hits={"PER": ["hour"], "KEEP": {"hour": 300}}):
            deltas = {f"hits:{number}": 1 for number in range(2500)}
            Counter.objects.increment_many(deltas, at=now - timedelta(days=5))
        with override_counters(hits={"PER": ["hour"], "KEEP": {"hour": 2}}):
            assert prune_cells() == 2500
        assert not CounterCell.objects.exists()


def test_a_time_zone_that_was_changed_is_a_warning() -> None:
    def warnings() -> list[str]:
        found = run_checks(databases=["default"])
        return [message.msg for message in found if message.id == "counters.W020"]

    stored = f"hits ({settings.TIME_ZONE})"
    with override_counters(hits={"PER": ["day"]}):
        Counter.objects.increment("hits:a")
        assert warnings() == []
        with override_settings(TIME_ZONE="Asia/Tokyo"):
            (warning,) = warnings()
            assert "another time zone than Asia/Tokyo" in warning
            assert stored in warning
    # What nothing declares any more is counted by no period.
    with override_settings(TIME_ZONE="Asia/Tokyo"):
        assert stored not in " ".join(warnings())


def test_old_actors_are_forgotten_in_one_search_of_those_that_wait() -> None:
    """However many there are where no rollup runs: each search reads all of a measure."""
    ago = clock.utc() - timedelta(days=30)
    counted = {"UNIQUE": ["hour"], "KEEP": {"hour": 60}}
    with override_counters(hits=counted):
        Counter.objects.increment("hits:a", who="ann", at=ago)
        (row,) = CounterMember.objects.all()
        of = {name: getattr(row, name) for name in ("measure_id", "key", "period", "start", "tags")}
        CounterMember.objects.bulk_create(CounterMember(**of, member=n) for n in range(1, 2501))
    with override_counters(hits={**counted, "KEEP": {"hour": 2}}):
        with CaptureQueriesContext(connection) as queries:
            assert prune_cells() > 0
        table = CounterMember._meta.db_table
        said = [q["sql"].replace('"', "").replace("`", "") for q in queries]
        deletions = [sql for sql in said if "DELETE" in sql and table in sql]
        searches = [sql for sql in deletions if "start <" in sql]
        assert searches
        assert len(searches) == len(set(searches))
    assert not CounterMember.objects.exists()
    assert not CounterUnique.objects.exists()


def test_a_namespace_with_capital_letters_is_another_one() -> None:
    with override_counters(
        pages={"STRATEGY": "ledger"}, Pages={"STRATEGY": "ledger", "PER": ["day"]}
    ):
        Counter.objects.increment("pages:a")
        assert Counter.objects.increment("Pages:a") is not None
        assert set(CounterMeasure.objects.get(name="Pages").periods.values()) == {None}
        assert series.of("Pages:a").per("day").last(3).total() == 1
