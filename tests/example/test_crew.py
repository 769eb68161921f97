"""A real worker, beat and flusher beside the site, and what becomes of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from django.conf import settings
from django.test import override_settings

from django_counters.models import Counter, CounterBatch, CounterDelta, CounterShard
from django_counters.testing import override_counters
from example_project.bootstrap.children import command_line, until
from example_project.bootstrap.services import DATA
from example_project.celery import JOURNAL
from example_project.chaos import AWAY, Chaos
from example_project.crew import BEAT, FLUSHER, WORKER, Crew, working
from example_project.settings import COUNTERS, prefix_in_redis
from example_project.tally import ORDERS, Tally
from tests.example.running import identity, url_of_the_test

PATIENCE = 40
CODE = """
import os, sys, time
from example_project import crew, tally
with crew.working(tally.Tally(), *sys.argv[1:]) as present:
    print(present._folder, *(child.pid for child in present._children.values()), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def site(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process counts where the other ones look for what waits."""
    url = url_of_the_test()
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv(DATA, f"{url} {identity()}")
    cache = {**settings.CACHES["default"], "KEY_PREFIX": prefix_in_redis(identity())}
    with override_settings(CACHES={"default": cache}), override_counters(**COUNTERS):
        yield


def landed() -> bool:
    return Counter.objects.filter(key="visits:shop", value=3).exists()


@pytest.mark.postgres
def test_beat_lets_the_worker_land_and_fold_what_waits(site: None) -> None:
    tally = Tally()
    Counter.objects.increment("visits:shop", 3)
    Counter.objects.increment("downloads:post-1", 3)
    Counter.objects.increment(ORDERS)
    with working(tally, WORKER, BEAT) as crew:
        assert until(landed, PATIENCE), tally.failures()
        assert until(lambda: not CounterShard.objects.exists(), PATIENCE)
        assert until(lambda: Counter.objects.read(ORDERS).total == 1, PATIENCE)
        crew.look()
    assert (tally.failures(), tally.sums()["folded"], tally.sums()["entries"]) == ([], 1, 1)
    assert CounterBatch.objects.count() == 1
    assert CounterDelta.objects.count() == 1


@pytest.mark.postgres
def test_the_flusher_needs_nobody_and_is_started_again(site: None) -> None:
    tally = Tally()
    with working(tally, FLUSHER) as crew:
        crew.kill(FLUSHER)
        Counter.objects.increment("visits:shop", 3)
        crew.start(FLUSHER)
        assert until(landed, PATIENCE), tally.failures()
        crew.look()
    assert tally.failures() == []


def test_one_that_ends_by_itself_fails_the_run(tmp_path: Path) -> None:
    tally = Tally()
    crew = Crew(tmp_path, tally)
    crew.start(FLUSHER)
    pid = crew._children[FLUSHER].pid
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: not crew._children[FLUSHER].running, PATIENCE)
    crew.look()
    crew.look()
    assert [line.partition(";")[0] for line in tally.failures()] == ["the flusher has ended"]


@pytest.mark.postgres
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next run ends them")
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_they_die_with_whoever_started_them(
    site: None, tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", CODE, WORKER, BEAT, FLUSHER]
    # In a folder of its own, because every run looks for what others have left, and ends it.
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process,
        # Where something fails, nobody waits for it to end by itself.
        callback(process.kill),
    ):
        assert process.stdout
        folder, *pids = process.stdout.readline().split()
        assert Path(folder).parent == tmp_path
        Counter.objects.increment("visits:shop", 3)
        # By then the flusher or the worker is at work, and takes signals in its own way.
        assert until(landed, PATIENCE)
        assert until(lambda: all(started(int(pid)) for pid in pids), PATIENCE)
        process.send_signal(number)
    until(lambda: not any(command_line(int(pid)) for pid in pids), 20)
    left = [found for pid in pids if (found := command_line(int(pid)))]
    for pid in pids if left else ():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    assert left == []


def callback(end: Callable[[], object]) -> ExitStack:
    """A block after which something is called."""
    stack = ExitStack()
    stack.callback(end)
    return stack


def started(pid: int) -> bool:
    return "launcher.py" not in (present := command_line(pid)) and bool(present)


@pytest.fixture
def noted(tmp_path: Path) -> Callable[..., Tally]:
    """Writes lines into the journal of a worker, and returns what is told of them."""
    tally = Tally()
    crew = Crew(tmp_path, tally)

    def note(*lines: dict[str, object], rest: str = "") -> Tally:
        text = "".join(json.dumps(line) + "\n" for line in lines) + rest
        with Path(crew._journal).open("a") as journal:
            journal.write(text)
        crew.look()
        return tally

    return note


def rollup(rows: int, stuck: list[str]) -> dict[str, object]:
    done = {"rows": rows, "entries": 2, "stuck": stuck}
    return {"task": "django_counters.rollup", "done": done}


def test_what_the_tasks_have_done_is_added_up_once(noted: Callable[..., Tally]) -> None:
    noted(rollup(3, []), rest='{"task": "django_coun')
    rest = 'ters.rollup", "done": {"rows": 4, "entries": 0, "stuck": []}}\n'
    assert noted(rest=rest).sums() == {"folded": 7, "entries": 2}


def test_what_a_task_could_not_do_fails_the_run(noted: Callable[..., Tally]) -> None:
    flushed = {"quarantined": {"visits:shop": 3}}
    tally = noted(
        rollup(1, ["downloads:post-1"]),
        {"task": "django_counters.flush", "done": flushed},
        {"task": "django_counters.flush", "failed": "ValueError()"},
    )
    assert tally.failures() == [
        "the rollup: downloads:post-1 does not fit",
        "the flush: 3 of visits:shop could not be landed",
        "the task django_counters.flush: ValueError()",
    ]


def test_the_journal_is_written_by_the_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from example_project.celery import app, note_success

    monkeypatch.setenv(JOURNAL, str(tmp_path / "journal"))
    task = app.tasks["django_counters.prune"]
    note_success(task, {"tokens": 1})
    line = json.loads((tmp_path / "journal").read_text())
    assert line == {"task": "django_counters.prune", "done": {"tokens": 1}}


class Server:
    """Notes what is done to it."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def kill(self, name: str = "Redis") -> None:
        self._told.append(f"- {name}")

    def start(self, name: str = "Redis") -> None:
        self._told.append(f"+ {name}")


def test_chaos_takes_turns_and_lets_everything_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    now = 0.0
    monkeypatch.setattr("example_project.chaos.own_redis", lambda: Server(told))
    monkeypatch.setattr("example_project.chaos.time.monotonic", lambda: now)
    crew: object = Server(told)
    chaos = Chaos(crew)  # type: ignore[arg-type]
    while len(told) < 7:
        now += AWAY / 10
        chaos.step()
    chaos.mend()
    chaos.mend()
    assert told == [
        *("- Redis", "+ Redis", "- flusher", "+ flusher", "- worker", "+ worker"),
        *("- Redis", "+ Redis"),
    ]
    assert chaos.kills == {"Redis": 2, "flusher": 1, "worker": 1}
