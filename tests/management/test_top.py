"""``manage.py counters top``: what it shows, and how it leaves a terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.db.models import F
from django.utils.timezone import now

from django_counters.management import top
from django_counters.models import Counter

# A loop closes connections that it finds within a transaction.
pytestmark = pytest.mark.django_db(transaction=True)
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
FRAME = "\x1b[H"
PATIENCE = 60
# The command in a process of its own, on the database of the test.
CODE = """
import sys
import django
from django.core.management import execute_from_command_line
from django.db import connections

django.setup()
connections["default"].settings_dict["NAME"] = sys.argv[1]
execute_from_command_line(["manage.py", "counters", "top", *sys.argv[2:]])
"""


class Stream(StringIO):
    """Where the command writes to. After each look something is done; then it is asked to end."""

    def __init__(
        self, *steps: Callable[[], Any], terminal: bool = False, end: signal.Signals = signal.SIGINT
    ) -> None:
        super().__init__()
        self._steps = list(steps)
        self._terminal = terminal
        self._end = end
        self.looks = 0

    def isatty(self) -> bool:
        return self._terminal

    def flush(self) -> None:
        # Entering and leaving the other screen is no look.
        if self.getvalue().endswith((ENTER, LEAVE)):
            return
        self.looks += 1
        if self._steps:
            self._steps.pop(0)()
        else:
            os.kill(os.getpid(), self._end)


def watched(*steps: Callable[[], Any], options: tuple[str, ...] = (), terminal: bool = True) -> str:
    """All that is written, with something that happens after each look."""
    out = Stream(*steps, terminal=terminal)
    call_command("counters", "top", "--every=0.01", *options, stdout=out)
    assert out.looks == len(steps) + 1
    return out.getvalue()


def frames(written: str) -> list[list[str]]:
    """The lines of each screen that was drawn."""
    assert written.startswith(ENTER)
    body = written.removeprefix(ENTER).removesuffix(LEAVE)
    drawn = [frame.removesuffix("\x1b[K\x1b[J") for frame in body.split(FRAME)[1:]]
    return [re.split("\x1b\\[K\r+\n", frame) for frame in drawn]


def counted(**amounts: int) -> Callable[[], Any]:
    return lambda: Counter.objects.increment_many(amounts)


def counted_by_hand(key: str) -> Callable[[], Any]:
    """Changes a counter whose key no increment would take."""
    return lambda: Counter.objects.filter(key=key).update(value=F("value") + 1, updated_at=now())


def cells(lines: list[str]) -> dict[str, list[str]]:
    """What stands below the head of the table, by counter."""
    (at,) = (number for number, line in enumerate(lines) if line.endswith("COUNTER"))
    return {line.split()[-1]: line.split() for line in lines[at + 1 :] if line.strip()}


class TestLive:
    def test_it_draws_what_has_changed_since_the_look_before(self) -> None:
        counted(a=1, b=1)()
        written = watched(counted(a=2, b=30), counted(a=500))
        first, second, third = frames(written)
        assert {name: row[0] for name, row in cells(first).items()} == {"a": "-", "b": "-"}
        assert list(cells(second)) == ["b", "a"]
        assert [row[1] for row in cells(second).values()] == ["31", "3"]
        assert list(cells(third)) == ["a"]
        assert float(cells(third)["a"][0].replace(",", "")) > 0
        assert cells(third)["a"][1:3] == ["503", "exact"]
        assert written.endswith(LEAVE)
        assert written.count(ENTER) == written.count(LEAVE) == 1

    def test_an_error_leaves_the_terminal_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError("no look")

        monkeypatch.setattr(top, "look", fail)
        out = Stream(terminal=True)
        with pytest.raises(RuntimeError, match="no look"):
            call_command("counters", "top", stdout=out)
        assert out.getvalue() == ENTER + LEAVE

    def test_control_characters_in_keys_do_nothing(self) -> None:
        evil = "evil\x1b]0;title\x07\x1b[2J\x9b2J\u202e\n"
        Counter.objects.create(key=evil, value=1)
        for terminal in (True, False):
            left = watched(counted_by_hand(evil), terminal=terminal)
            for known in (ENTER, LEAVE, FRAME, "\x1b[K", "\x1b[J", "\r\n", "\n"):
                left = left.replace(known, "")
            assert left.isprintable()
            assert r"evil\x1b]0;title\x07\x1b[2J\x9b2J\u202e\n" in left

    def test_it_can_be_ended_as_services_are(self) -> None:
        counted(hot=100)()
        out = Stream(terminal=True, end=signal.SIGTERM)
        call_command("counters", "top", stdout=out)
        assert cells(frames(out.getvalue())[0])["hot"][1] == "100"
        assert out.getvalue().endswith(LEAVE)

    def test_a_terminal_that_knows_no_such_characters(self) -> None:
        class Ascii(Stream):
            encoding = "ascii"

        counted(**{"視:a": 1})()
        out = Ascii(terminal=True)
        call_command("counters", "top", stdout=out)
        assert out.getvalue().isascii()
        assert r"\u8996:a" in out.getvalue()


class TestPlain:
    def test_json_is_one_object_a_look(self) -> None:
        counted(a=1)()
        # The first look has no rates, and is not printed.
        written = watched(counted(a=2), counted(a=7), options=("--json",), terminal=False)
        found = [json.loads(line) for line in written.splitlines()]
        assert found[0]["counters"] == []
        for one, change, value in ((found[1], 2, 3), (found[2], 7, 10)):
            (counter,) = one["counters"]
            rate = counter.pop("rate")
            assert counter == {
                **{"field": "", "key": "a", "strategy": "exact", "value": value},
                **{"exact": True, "waits": 0, "change": change},
            }
            # The interval is printed in milliseconds.
            assert rate == pytest.approx(change / one["interval"], rel=0.1)
            assert one["rate"] == rate
        assert found[0]["database"] == "default"
        assert found[0]["incidents"] == {}

    @pytest.mark.parametrize("option", ["--every=0", "--limit=0", "--limit=501", "--limit=x"])
    def test_wrong_options(self, option: str) -> None:
        with pytest.raises(CommandError, match="no number"):
            call_command("counters", "top", option, stdout=StringIO())


class TestAway:
    @pytest.mark.many_writers
    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_a_database_that_is_away_is_shown_until_it_is_back(self) -> None:
        other = connections["other"]
        other.close()
        host, other.settings_dict["HOST"] = other.settings_dict["HOST"], "/nonexistent"

        def back() -> None:
            other.settings_dict["HOST"] = host

        try:
            options = ("--database=other", "--json")
            written = watched(back, lambda: None, options=options, terminal=False)
        finally:
            other.settings_dict["HOST"] = host
            other.close()
        away, *_, back_again = (json.loads(line)["away"] for line in written.splitlines())
        assert "database" in [one["part"] for one in away]
        assert any("/nonexistent" in one["reason"] for one in away)
        assert back_again == []


@contextmanager
def started(*options: str, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process of its own."""
    name = str(connection.settings_dict["NAME"])
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    words = [sys.executable, "-c", CODE, name, *options]
    process = subprocess.Popen(words, stdout=stdout, stderr=subprocess.PIPE, env=env)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.many_writers
class TestProcess:
    def test_whoever_reads_it_may_go_away(self) -> None:
        with started("--every=0.05", stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(b"counters top")
            process.stdout.close()
            assert process.wait(PATIENCE) == 0
            assert process.stderr.read() == b""
