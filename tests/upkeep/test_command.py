"""``manage.py counters``: what it prints, and when it fails."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_counters.models import Counter, CounterShard
from django_counters.types import INT8
from tests.testapp.models import Song

pytestmark = pytest.mark.django_db


def output(*arguments: str) -> str:
    out = StringIO()
    call_command("counters", *arguments, stdout=out)
    return out.getvalue().strip()


class Terminal(StringIO):
    """A stream that says that somebody looks at it."""

    def isatty(self) -> bool:
        return True


class TestRollup:
    def test_it_says_what_it_did(self) -> None:
        CounterShard.objects.increment("a", 5)
        song = Song.objects.create()
        song.plays.increment(2)
        assert output("rollup") == "2 rows folded, 0 without a record dropped, 0 left"
        assert Counter.objects.get().value == 5
        assert Song.objects.get().plays == 2
        assert output("rollup") == "0 rows folded, 0 without a record dropped, 0 left"

    def test_a_dry_run_only_counts(self) -> None:
        CounterShard.objects.increment("a", 5)
        assert output("rollup", "--dry-run") == "1 rows wait for their rollup"
        assert CounterShard.objects.get().value == 5

    def test_json(self) -> None:
        CounterShard.objects.increment("a", 5)
        expected: dict[str, Any] = {"database": "default", "counters": 0, "orphans": 0, "stuck": []}
        waits = {**expected, "dry_run": True, "rows": 0, "left": 1}
        assert json.loads(output("rollup", "--dry-run", "--json")) == waits
        done = {**expected, "dry_run": False, "rows": 1, "counters": 1, "left": 0}
        assert json.loads(output("rollup", "--json")) == done

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

    def test_progress_is_for_people(self) -> None:
        CounterShard.objects.increment("a")
        terminal, file = Terminal(), StringIO()
        call_command("counters", "rollup", stdout=StringIO(), stderr=terminal)
        call_command("counters", "rollup", stdout=StringIO(), stderr=file)
        assert "shards: 1 rows folded" in terminal.getvalue()
        assert terminal.getvalue().endswith("\r\x1b[K")
        assert file.getvalue() == ""


class TestDoctor:
    def test_it_says_that_all_is_well(self) -> None:
        assert output("doctor") == "Nothing waits, and nothing is wrong."
        assert json.loads(output("doctor", "--json")) == []

    def test_it_says_what_is_left(self) -> None:
        CounterShard.objects.increment("likes:a")
        (line,) = output("doctor").splitlines()
        assert line.startswith("likes · exact · 1 rows of 1 counters wait · ")
        assert line.endswith("manage.py counters rollup folds it")
        (finding,) = json.loads(output("doctor", "--json"))
        assert finding["subject"] == "likes"
        assert (finding["rows"], finding["counters"]) == (1, 1)


@pytest.mark.django_db(databases=["default", "other"])
def test_the_database_can_be_chosen() -> None:
    CounterShard.objects.increment("a", using="other")
    assert output("rollup").startswith("0 rows")
    assert json.loads(output("doctor", "--database", "other", "--json"))[0]["rows"] == 1
    assert output("rollup", "--database", "other").startswith("1 rows")


@pytest.mark.parametrize("work", ["rollup", "doctor"])
def test_a_database_that_is_not_there(work: str) -> None:
    with pytest.raises(CommandError, match="There is no database 'nowhere'"):
        output(work, "--database", "nowhere")


@pytest.mark.parametrize("arguments", [(), ("fold",), ("doctor", "--dry-run")])
def test_what_it_does_not_know(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        output(*arguments)
