"""What the command says while it works and when it is done, and which options it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_counters.management.commands import counters as command
from django_counters.models import CounterIncident, CounterShard
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "given",
    [
        ("doctor", "--settings", "tests.settings"),
        ("doctor", "--pythonpath", "."),
        ("--settings", "tests.settings", "doctor"),
    ],
)
def test_options_of_django_stand_before_or_behind_the_sub_command(given: tuple[str, ...]) -> None:
    """In a process of its own: there Django looks for its settings in the arguments."""
    done = subprocess.run(
        [sys.executable, "-m", "django", "counters", *given, "--database", "nowhere"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "CommandError: There is no database 'nowhere'." in done.stderr


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        (["doctor", "-v", "2"], "verbosity", 2),
        (["-v", "2", "doctor"], "verbosity", 2),
        (["doctor", "--traceback"], "traceback", True),
        (["--traceback", "doctor"], "traceback", True),
        (["doctor", "--no-color"], "no_color", True),
        (["doctor"], "verbosity", 1),
        (["doctor"], "traceback", False),
    ],
)
def test_what_options_of_django_become(given: list[str], name: str, value: object) -> None:
    parser = command.Command().create_parser("manage.py", "counters")
    assert getattr(parser.parse_args(given), name) == value


@pytest.mark.django_db
class TestTheVerdict:
    def said(self, *options: str) -> list[str]:
        out = StringIO()
        call_command("counters", "doctor", *options, stdout=out)
        return out.getvalue().splitlines()

    def test_nothing_at_all(self) -> None:
        assert self.said() == self.said("--all", "--fail") == ["OK"]

    def test_what_is_as_it_should_be_is_listed_on_demand(self) -> None:
        with override_counters(likes={"STRATEGY": "sharded"}):
            CounterShard.objects.increment("likes:a")
            assert self.said("--fail") == ["OK"]
            assert self.said("--all") == ["OK", "OK · likes · sharded · 1 rows of 1 counters wait"]
            assert len(json.loads("".join(self.said("--json")))) == 1

    def test_what_is_urgent_comes_first(self) -> None:
        record(CounterIncident.Kind.HISTORY, "default", {}, "default")
        record(CounterIncident.Kind.LOST, "default", {}, "default")
        with override_counters(likes={"STRATEGY": "sharded"}):
            CounterShard.objects.increment("likes:a")
            CounterShard.objects.increment("plain")
            verdict, *lines = self.said("--all")
            assert verdict == "ACT: 2 findings to act on"
            assert [line.split(" · ")[:2] for line in lines] == [
                ["ACT", "(no namespace)"],
                ["ACT", "incidents"],
                ["WARN", "incidents"],
                ["OK", "likes"],
            ]
            assert self.said() == [verdict, *lines[:3]]
            assert [one["warns"] for one in json.loads("".join(self.said("--json")))] == [
                *(False, False, True, False)
            ]
            with pytest.raises(CommandError, match="ACT: 2 findings to act on"):
                self.said("--fail")

    def test_a_restart_of_redis_warns_and_fails_nothing(self) -> None:
        record(CounterIncident.Kind.HISTORY, "default", {}, "default")
        verdict, line = self.said("--fail")
        assert verdict == "WARN: 1 finding to know of"
        text = "WARN · incidents · Redis was started again, or another one took over: 1"
        assert line.startswith(text)


@pytest.mark.django_db
def test_a_log_is_told_how_far_an_adjustment_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "many.csv"
    table.write_text("counter,by\na,1\nb,1\nc,1\n")
    given = ("adjust", "--from", str(table), "--reason", "recount", "--actor", "a", "--step", "1")
    errors = StringIO()
    call_command("counters", *given, stdout=StringIO(), stderr=errors)
    assert errors.getvalue() == ""
    monkeypatch.setattr(command, "_EVERY", 0.0)
    call_command("counters", *given, stdout=StringIO(), stderr=errors)
    assert errors.getvalue().splitlines() == ["1 looked at", "2 looked at", "3 looked at"]
    for quiet in (["--json"], ["-v", "0"]):
        call_command("counters", *given, *quiet, stdout=StringIO(), stderr=(silent := StringIO()))
        assert silent.getvalue() == ""
