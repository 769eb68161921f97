"""``manage.py counters``: what it prints, and when it fails."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.test import override_settings

from django_counters import clock
from django_counters.features import Done
from django_counters.jobs import JOBS, jobs, run
from django_counters.ledger.partitions import SqlPartitions
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterIncident,
    CounterShard,
    CounterToken,
)
from django_counters.testing import override_counters
from django_counters.types import INT8
from tests.concurrency.crowd import Threads

pytestmark = pytest.mark.django_db


def output(*arguments: str) -> str:
    out = StringIO()
    call_command("counters", *arguments, stdout=out)
    return out.getvalue().strip()


class TestRollup:
    def test_it_says_what_it_did(self) -> None:
        CounterShard.objects.increment("a", 5)
        expected: dict[str, Any] = {
            **{"database": "default", "counters": 1, "orphans": 0, "left": 0, "stuck": []},
            **{"entries": 0, "waiting": 0, "rows": 1, "others": {"members": 0}, "failed": {}},
        }
        assert json.loads(output("upkeep", "rollup", "--json")) == {"rollup": expected}
        assert Counter.objects.get().value == 5
        assert (
            output("upkeep", "rollup")
            == "0 rows folded, 0 without a record dropped, 0 left; 0 entries folded, 0 left"
        )

    def test_totals_that_do_not_fit_are_named_and_fail_it(self) -> None:
        Counter.objects.create(key="full", value=INT8[1])
        CounterShard.objects.create(key="full", shard=0, value=1)
        CounterShard.objects.increment("a")
        out = StringIO()
        with pytest.raises(CommandError, match=r"do not fit, .*: full"):
            call_command("counters", "upkeep", "rollup", "--json", stdout=out)
        assert json.loads(out.getvalue())["rollup"]["stuck"] == ["full"]
        assert Counter.objects.value("full", using=None) == INT8[1] + 1
        assert Counter.objects.get(key="a").value == 1


class TestLedger:
    def test_verify_fails_where_something_differs(self) -> None:
        CounterDelta.objects.append_many([("a:1", 1), ("b:1", 1)])
        Counter.objects.filter(key="a:1").update(value=7)
        out = StringIO()
        with pytest.raises(CommandError, match="1 are not what they should be: a:1: 7, not 0"):
            call_command("counters", "verify", "--json", stdout=out)
        assert json.loads(out.getvalue())["drifts"] == [{"key": "a:1", "expected": 0, "actual": 7}]
        assert output("verify", "--namespace", "b").startswith("1 counters")
        assert output("verify", "--sample", "0") == "0 counters and 0 sealed partitions checked"
        assert Counter.objects.get(key="a:1").value == 7

    def test_rebase_says_how_much_it_changed(self) -> None:
        CounterDelta.objects.append_many([("a", 1), ("b", 2)])
        assert output("rebase") == "2 totals changed"
        assert json.loads(output("rebase", "--json")) == {"changed": 0}
        assert Counter.objects.get(key="b").value == 2

    def test_prune_says_how_many_it_forgot(self) -> None:
        Counter.objects.increment("a", token="old")
        CounterToken.objects.update(created_at=clock.now() - timedelta(days=3))
        Counter.objects.increment("a", token="new")
        others = (
            "0 generations, 0 histories, 0 incidents, "
            "0 holds, 0 buckets, 0 cells, 0 samples and 0 moods forgotten"
        )
        assert output("upkeep", "prune") == f"1 tokens, {others}"
        kinds = ("generations", "histories", "samples", "cells", "holds", "incidents", "buckets")
        nothing = dict.fromkeys(("tokens", *kinds, "moods"), 0)
        pruned = {"prune": {"database": "default", **nothing}}
        assert json.loads(output("upkeep", "prune", "--json")) == pruned

    def test_prune_forgets_incidents_after_a_year(self) -> None:
        for days in (367, 365):
            incident = CounterIncident.objects.create(kind="lost", subject=f"{days} days ago")
            found = clock.now() - timedelta(days=days)
            CounterIncident.objects.filter(pk=incident.pk).update(found_at=found)
        forgotten = "1 incidents, 0 holds, 0 buckets, 0 cells, 0 samples and 0 moods forgotten"
        assert output("upkeep", "prune").endswith(forgotten)
        assert [one.subject for one in CounterIncident.objects.all()] == ["365 days ago"]

    @pytest.mark.django_db(transaction=True)
    def test_one_that_is_fenced_fails_and_says_what_to_do(self) -> None:
        CounterDelta.objects.append("a", 1)
        output("rebase")
        CounterHorizon.objects.all().delete()
        with pytest.raises(CommandError, match=r"run manage\.py counters rebase"):
            output("upkeep", "rollup")
        output("rebase")
        assert output("upkeep", "rollup").endswith("0 entries folded, 0 left")


@pytest.mark.django_db(transaction=True)
class TestUpkeep:
    @pytest.mark.needs("ledger", "history")
    def test_it_does_all_regular_work(self, cached: str) -> None:
        Counter.objects.increment("a", token="old")
        CounterToken.objects.update(created_at=clock.now() - timedelta(days=3))
        CounterShard.objects.increment("b", 5)
        with override_counters(hits={"STRATEGY": "cached", "HISTORY": "1h"}):
            Counter.objects.increment("hits:a", 3)
            lines = output("upkeep").splitlines()
        assert len(lines) == len(jobs())
        assert lines[2].startswith("1 counters changed by 1 generations")
        assert lines[3].startswith("1 rows folded")
        assert lines[4].startswith("1 tokens, ")
        own = Counter.objects.filter(key__startswith="counters.")
        kept = dict(Counter.objects.difference(own).values_list("key", "value"))
        assert kept == {"a": 1, "b": 5, "hits:a": 3}

    def test_what_fails_does_not_stop_the_rest(self) -> None:
        Counter.objects.increment("a", token="old")
        CounterToken.objects.update(created_at=clock.now() - timedelta(days=3))
        Counter.objects.create(key="full", value=INT8[1])
        CounterShard.objects.create(key="full", shard=0, value=1)
        with pytest.raises(CommandError, match=r"do not fit, .*: full"):
            output("upkeep")
        assert not CounterToken.objects.exists()


def _broken(using: str) -> Done:
    raise RuntimeError(f"no history of {using}")


def _stuck(using: str) -> Done:
    return Done("", {"database": using}, ["full does not fit"])


class TestIntervals:
    """Each job has an interval of its own, over all processes that share the database."""

    def test_a_job_runs_again_after_its_interval(self) -> None:
        first = output("upkeep").splitlines()
        assert len(first) == len(jobs())
        assert output("upkeep") == "0 files landed"
        begun = Counter.objects.filter(key="counters.upkeep:rollup")
        begun.update(value=F("value") - 60_000)
        assert output("upkeep").splitlines()[1].startswith("0 rows folded")
        assert output("upkeep") == "0 files landed"
        assert output("upkeep", "rollup").startswith("0 rows folded")
        assert len(output("upkeep", "--now").splitlines()) == len(jobs())

    @override_settings(COUNTERS_UPKEEP={"rollup": 1, "prune": 3})
    def test_the_setting_has_other_intervals(self) -> None:
        output("upkeep")
        Counter.objects.filter(key__startswith="counters.upkeep").update(value=F("value") - 2000)
        assert output("upkeep").splitlines()[1].startswith("0 rows folded")
        assert "rollup: fold shards, slots and entries into the totals, every 1 s" in output(
            "upkeep", "--list"
        )

    def test_a_clock_that_was_wrong_stops_no_job(self) -> None:
        output("upkeep")
        begun = Counter.objects.filter(key__startswith="counters.upkeep")
        begun.update(value=F("value") + 400 * 86_400_000)
        assert len(output("upkeep").splitlines()) == len(jobs())

    @override_settings(COUNTERS_UPKEEP={"verify": None})
    def test_a_job_that_is_switched_off(self) -> None:
        assert "verify" not in json.loads(output("upkeep", "--json"))

    def test_a_job_that_failed_is_done_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And the problems of others are told."""
        with monkeypatch.context() as broken:
            broken.setattr("django_counters.contrib.series.recording.history", _broken)
            broken.setattr("django_counters.management.work.rollup", _stuck)
            said = StringIO()
            with pytest.raises(ExceptionGroup):
                call_command("counters", "upkeep", stdout=StringIO(), stderr=said)
            assert "full does not fit" in said.getvalue()
        assert output("upkeep").splitlines() == ["0 files landed", "0 totals recorded"]

    def test_two_jobs_of_one_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("django_counters.jobs.JOBS", (*JOBS, JOBS[0]))
        with pytest.raises(CommandError, match=r"django_counters and .* have a job 'rollup'"):
            output("upkeep")

    @pytest.mark.parametrize(
        "declared", [[], {"rolup": 1}, {"rollup": 0}, {"rollup": True}, {"rollup": "1"}]
    )
    def test_a_setting_that_is_wrong(self, declared: object) -> None:
        with override_settings(COUNTERS_UPKEEP=declared):
            with pytest.raises(CommandError, match="COUNTERS_UPKEEP"):
                output("upkeep")
            assert [one.id for one in run_checks()] == ["counters.E061"]

    def test_an_unknown_job(self) -> None:
        with pytest.raises(CommandError, match=r"no job 'rolup'.*Did you mean 'rollup'"):
            output("upkeep", "rolup")

    @pytest.mark.many_writers
    @pytest.mark.django_db(transaction=True)
    def test_of_many_processes_one_begins_a_job(self) -> None:
        for _ in range(5):
            begun = Threads(8).run(lambda _: len(list(run("default", ["history"], due=True))))
            assert sum(begun) == 1
            Counter.objects.filter(key="counters.upkeep:history").update(value=0)
        assert len(list(run("default", ["history"], due=True))) == 1


@pytest.mark.needs("history")
def test_history_says_how_many_it_recorded() -> None:
    Counter.objects.increment_many({"hits:a": 1, "hits:b": 1, "plain:a": 1})
    with override_counters(hits={"HISTORY": "1h"}):
        assert output("upkeep", "history") == "2 totals recorded"
        assert json.loads(output("upkeep", "history", "--json")) == {
            "history": {"database": "default", "recorded": 0}
        }


class TestPartitions:
    @pytest.fixture(autouse=True)
    def _today(self) -> None:
        """Midnight may have come since the migration."""
        output("upkeep", "partitions")

    @pytest.mark.postgresql
    def test_it_says_what_it_did(self) -> None:
        (*_, extent) = SqlPartitions("default").present()
        with connection.cursor() as cursor:
            cursor.execute(f'DROP TABLE "{extent.name}"')
        assert output("upkeep", "partitions") == "1 made, 0 sealed, 0 dropped"
        report = json.loads(output("upkeep", "partitions", "--json"))
        nothing: dict[str, Any] = {
            key: [] for key in ("created", "sealed", "dropped", "busy", "failed")
        }
        assert report == {"partitions": {"database": "default", "forgotten": 0, **nothing}}
        assert extent in SqlPartitions("default").present()


@pytest.mark.django_db(databases=["default", "other"])
def test_the_database_can_be_chosen() -> None:
    CounterShard.objects.increment("a", using="other")
    assert output("upkeep", "rollup").startswith("0 rows")
    assert json.loads(output("doctor", "--database", "other", "--json"))[0]["rows"] == 1
    assert output("upkeep", "rollup", "--database", "other").startswith("1 rows")


def test_a_database_that_is_not_there() -> None:
    for work in ["flush", "upkeep", "verify", "rebase", "audit", "doctor"]:
        with pytest.raises(CommandError, match="There is no database 'nowhere'"):
            output(work, "--database", "nowhere")


@pytest.mark.parametrize("arguments", [(), ("fold",), ("doctor", "--dry-run")])
def test_what_it_does_not_know(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        output(*arguments)
