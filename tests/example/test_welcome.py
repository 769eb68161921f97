"""What the example says while it starts, and when its pages can be opened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest

from example_project import run, running
from example_project.blog.models import Post
from example_project.bootstrap import children, environment
from tests.example.running import PATIENCE

RUNS = """
import os, sys
from example_project import running
os.environ["DATABASE_URL"] = "of the other"
with running.findable():
    print("it runs", flush=True)
    sys.stdin.read()
"""
UNTIL_IT_IS_THERE = "import pathlib, sys\nwhile not pathlib.Path(sys.argv[1]).exists(): pass"


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs are noted. Those of other tests are noted elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return running._notes()


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_top_sees_what_waits_in_the_redis_of_the_run(site: None, notes: Path) -> None:
    post = Post.objects.create(title="A", slug="a", body="b")
    post.views.increment(3)
    command = [sys.executable, "-m", "example_project", "top", "--once", "--json"]
    elsewhere = {name: value for name, value in os.environ.items() if name not in running.NAMES}
    with running.findable():
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=elsewhere
        )
    assert told.returncode == 0, told.stderr
    (redis,) = json.loads(told.stdout)["redises"]
    assert (redis["name"], redis["problem"]) == ("default", "")
    assert redis["counters"] > 0


def test_where_nobody_runs_top_says_so(notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["top"]) == 2
    assert "no example runs here" in capsys.readouterr().err


def test_top_with_arguments_before_it_starts_no_other_run() -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(["--port", "9000", "top"])


def test_the_run_that_was_started_last_is_found_and_dead_ones_are_forgotten(notes: Path) -> None:
    began = subprocess.Popen([sys.executable, "-c", RUNS], stdin=PIPE, stdout=PIPE, text=True)
    with began as dead, running.findable():
        assert dead.stdout
        # Its note is the newer one.
        assert dead.stdout.readline() == "it runs\n"
        os.utime(notes / f"{dead.pid}.json", (time.time() + 60,) * 2)
        assert running.latest()["DATABASE_URL"] == "of the other"
        dead.kill()
        dead.wait(PATIENCE)
        assert running.latest()["DATABASE_URL"] == os.environ["DATABASE_URL"]
        assert [note.stem for note in notes.iterdir()] == [str(os.getpid())]
    with pytest.raises(running.NobodyRuns):
        running.latest()


def test_an_installer_that_takes_long_is_seen_to_be_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    end = tmp_path / "end"

    def say(line: str) -> None:
        told.append(line)
        end.touch()

    monkeypatch.setattr(environment, "_say", say)
    monkeypatch.setattr(environment, "SAYS_EVERY", 0.01)
    waits = [sys.executable, "-c", UNTIL_IT_IS_THERE, str(end)]
    child = children.start(waits, log=tmp_path / "log")
    try:
        assert environment._waited(child) == 0
    finally:
        child.stop()
    assert told[0] == "still installing, 0 s so far"
