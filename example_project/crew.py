"""The processes beside the site: a Celery worker, and beat, which tells it what to do when."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from example_project.bootstrap import children, folders
from example_project.bootstrap.children import Child
from example_project.celery import JOURNAL
from example_project.tally import Tally

WORKER, BEAT, FLUSHER = "worker", "beat", "flusher"
_CELERY = ("-m", "celery", "--app", "example_project")
# One process for each: what has to be killed is one number.
_COMMANDS: dict[str, Callable[[Path], tuple[str, ...]]] = {
    WORKER: lambda folder: (
        *_CELERY,
        WORKER,
        "--pool=solo",
        "--without-gossip",
        "--without-mingle",
        "--loglevel=WARNING",
        f"--logfile={folder / 'worker.log'}",
    ),
    BEAT: lambda folder: (
        *_CELERY,
        BEAT,
        "--loglevel=WARNING",
        f"--schedule={folder / 'schedule'}",
        f"--logfile={folder / 'beat.log'}",
        "--pidfile=",
    ),
    FLUSHER: lambda _: ("-m", "django", "counters", "flush", "--loop", "1"),
}
_LINES_SHOWN = 8
_GRACE = 5.0


class Crew:
    """Starts, watches and ends the processes. Only the main thread may do that."""

    def __init__(self, folder: Path, tally: Tally) -> None:
        self._folder = folder
        self._tally = tally
        self._children: dict[str, Child] = {}
        self._journal = folder / "journal"
        self._read_up_to = 0

    def start(self, name: str) -> None:
        """Start one of them, or start it again."""
        self._children[name] = children.start(
            [sys.executable, *_COMMANDS[name](self._folder)],
            log=self._log(name),
            pid_file=self._folder / f"{name}.pid",
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "example_project.settings",
                JOURNAL: str(self._journal),
            },
            cwd=folders.ROOT,
            # Asked while it starts, a worker may go on for ever. All of it can be cut off anywhere.
            death=signal.SIGKILL,
        )

    def kill(self, name: str) -> None:
        """End one of them by SIGKILL, whatever it is doing."""
        self._children.pop(name).kill()

    def look(self) -> None:
        """Fail the run where one has ended by itself; note what the tasks have done."""
        for name, child in list(self._children.items()):
            if not child.running:
                del self._children[name]
                log = self._log(name).read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
                self._tally.fail("\n    ".join([f"the {name} has ended; its log ends:", *log]))
        for line in self._new_lines():
            _note(line, self._tally)

    def stop(self) -> None:
        """End all of them at the same time; each finishes the task that it is in."""
        for child in self._children.values():
            child.ask()
        for child in self._children.values():
            children.until(lambda one=child: not one.running, _GRACE)  # type: ignore[misc]
            child.stop(_GRACE)
        self._children.clear()
        self.look()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        """The whole lines that have come to the journal."""
        if not self._journal.exists():
            return
        with self._journal.open("rb") as file:
            file.seek(self._read_up_to)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read_up_to += len(line)
                yield json.loads(line)


@contextmanager
def working(tally: Tally, *names: str) -> Iterator[Crew]:
    """Let these processes work until the block ends, and tell the tally what they have done."""
    with folders.temporary(None) as run:
        crew = Crew(run.path, tally)
        try:
            for name in names:
                crew.start(name)
            yield crew
        finally:
            crew.stop()


def _note(line: dict[str, Any], tally: Tally) -> None:
    if "failed" in line:
        tally.fail(f"the task {line['task']}: {line['failed']}")
        return
    jobs = line["done"]
    for counter, by in jobs.get("flush", {}).get("quarantined", {}).items():
        tally.fail(f"the flush: {by} of {counter} could not be landed")
    if "rollup" in jobs:
        done = jobs["rollup"]
        tally.add("folded", done["rows"])
        tally.add("entries", done["entries"])
        for counter in done["stuck"]:
            tally.fail(f"the rollup: {counter} does not fit")
