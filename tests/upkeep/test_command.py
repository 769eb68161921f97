"""``manage.py counters``: what it prints, and when it fails."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from django_counters import clock
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterShard,
    CounterToken,
)
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.testing import override_counters
from django_counters.types import INT8

pytestmark = pytest.mark.django_db


def output(*arguments: str) -> str:
    out = StringIO()
    call_command("counters", *arguments, stdout=out)
    return out.getvalue().strip()


class TestRollup:
    def test_it_says_what_it_would_do_and_what_it_did(self) -> None:
        CounterShard.objects.increment("a", 5)
        assert output("rollup", "--dry-run") == "1 rows and 0 entries wait for their rollup"
        expected: dict[str, Any] = {
            **{"database": "default", "counters": 0, "orphans": 0, "stuck": []},
            **{"entries": 0, "waiting": 0, "members": 0},
        }
        waits = {**expected, "dry_run": True, "rows": 0, "left": 1}
        assert json.loads(output("rollup", "--dry-run", "--json")) == waits
        done = {**expected, "dry_run": False, "rows": 1, "counters": 1, "left": 0}
        assert json.loads(output("rollup", "--json")) == done
        assert Counter.objects.get().value == 5
        assert (
            output("rollup")
            == "0 rows folded, 0 without a record dropped, 0 left; 0 entries folded, 0 left"
        )

    def test_totals_that_do_not_fit_are_named_and_fail_it(self) -> None:
        Counter.objects.create(key="full", value=INT8[1])
        CounterShard.objects.create(key="full", shard=0, value=1)
        CounterShard.objects.increment("a")
        out = StringIO()
        with pytest.raises(CommandError, match=r"do not fit, .*: full"):
            call_command("counters", "rollup", "--json", stdout=out)
        assert json.loads(out.getvalue())["stuck"] == ["full"]
        assert Counter.objects.value("full", using=None) == INT8[1] + 1
        assert Counter.objects.get(key="a").value == 1


class TestLedger:
    def test_verify_fails_where_something_differs(self) -> None:
        CounterDelta.objects.append_many([("a:1", 1), ("b:1", 1)])
        Counter.objects.filter(key="a:1").update(value=7)
        out = StringIO()
        with pytest.raises(CommandError, match="1 are not what they should be: a:1: 7, not 0"):
            call_command("counters", "verify", "--json", stdout=out)
        assert json.loads(out.getvalue())["drifts"] == [{"key": "a:1", "expected": 0, "found": 7}]
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
        others = "0 generations, 0 histories, 0 samples, 0 buckets, 0 cells and 0 holds forgotten"
        assert output("prune") == f"1 tokens, {others}"
        kinds = ("generations", "histories", "samples", "buckets", "cells", "holds")
        nothing = dict.fromkeys(("tokens", *kinds), 0)
        assert json.loads(output("prune", "--json")) == nothing

    @pytest.mark.django_db(transaction=True)
    def test_one_that_is_fenced_fails_and_says_what_to_do(self) -> None:
        CounterDelta.objects.append("a", 1)
        output("rebase")
        CounterHorizon.objects.all().delete()
        with pytest.raises(CommandError, match=r"run manage\.py counters rebase"):
            output("rollup")
        output("rebase")
        assert output("rollup").endswith("0 entries folded, 0 left")


def test_history_says_how_many_it_recorded() -> None:
    Counter.objects.increment_many({"hits:a": 1, "hits:b": 1, "plain:a": 1})
    with override_counters(hits={"HISTORY": "1h"}):
        assert output("history") == "2 totals recorded"
        assert json.loads(output("history", "--json")) == {"database": "default", "recorded": 0}


class TestPartitions:
    @pytest.fixture(autouse=True)
    def _today(self) -> None:
        """Midnight may have come since the migration."""
        output("partitions")

    def test_nothing_has_to_be_done_where_all_are_there(self) -> None:
        assert output("partitions", "--plan") == "Nothing has to be done."
        assert json.loads(output("partitions", "--plan", "--json")) == []

    @pytest.mark.postgresql
    def test_it_says_what_it_would_do_and_what_it_did(self) -> None:
        (*_, extent) = SqlPartitions("default").present()
        with connection.cursor() as cursor:
            cursor.execute(f'DROP TABLE "{extent.name}"')
        plan = f"create a partition from {extent.since} to {extent.until}"
        assert output("partitions", "--plan") == plan
        ((verb, _, since, until),) = json.loads(output("partitions", "--plan", "--json"))
        assert (verb, since, until) == ("create", str(extent.since), str(extent.until))
        assert output("partitions") == "1 made, 0 sealed, 0 dropped"
        report = json.loads(output("partitions", "--json"))
        nothing: dict[str, Any] = {
            key: [] for key in ("created", "sealed", "dropped", "busy", "failed")
        }
        assert report == {"database": "default", "forgotten": 0, **nothing}
        assert extent in SqlPartitions("default").present()


@pytest.mark.django_db(databases=["default", "other"])
def test_the_database_can_be_chosen() -> None:
    CounterShard.objects.increment("a", using="other")
    assert output("rollup").startswith("0 rows")
    assert json.loads(output("doctor", "--database", "other", "--json"))[0]["rows"] == 1
    assert output("rollup", "--database", "other").startswith("1 rows")


def test_a_database_that_is_not_there() -> None:
    for work in ["flush", "rollup", "partitions", "verify", "rebase", "history", "prune", "doctor"]:
        with pytest.raises(CommandError, match="There is no database 'nowhere'"):
            output(work, "--database", "nowhere")


@pytest.mark.parametrize("arguments", [(), ("fold",), ("doctor", "--dry-run")])
def test_what_it_does_not_know(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        output(*arguments)
