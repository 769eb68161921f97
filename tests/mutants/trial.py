"""One trial: what a process does that was forked for it."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
import pytest_django.plugin

from tests.mutants import plugin
from tests.mutants.hook import sitecustomize as hook
from tests.mutants.mutant import Mutant

PATIENCE = 300
SURVIVED, NOTICED, BROKEN = 0, 1, 2
HOOK = str(Path(hook.__file__).parent)
OPTIONS = (
    *("-qx", "--slow", "--tb=native", "-p", "no:cacheprovider", "-p", "no:unstable"),
    *("-p", "django_counters.pytest_plugin"),
)


def forked(run: str, log: Path, work: Callable[[], int]) -> int:
    """Work in a process of its own, whose databases have the name of a run; return its number."""
    number = os.fork()
    if number == 0:
        _work(run, log, work)
    return number


def _work(run: str, log: Path, work: Callable[[], int]) -> NoReturn:
    code = BROKEN
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _write_to(log)
        signal.alarm(PATIENCE)
        os.environ["COUNTERS_TEST_RUN"] = run
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # What is to be done at the end of the process that was forked is its own affair.
        os._exit(code)


def _write_to(log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number in (1, 2):
        os.dup2(file, number)
    # One that takes too long says where it is, also while pytest keeps what is said for itself.
    faulthandler.register(signal.SIGALRM, file=file, chain=True)


def tried(mutant: Mutant, folder: Path) -> int:
    """Show the mutant to this process and to those that it starts, and run its test."""
    text = folder / "mutant.py"
    text.write_text(mutant.text())
    _show(f"{mutant.module} {text}")
    judge = plugin.Judge(mutant.module)
    words = [*OPTIONS, f"--basetemp={folder / 'tmp'}", mutant.test]
    code = pytest.main(words, plugins=[pytest_django.plugin, plugin, judge])
    if judge.noticed and not judge.broken:
        print(judge.noticed)
        return NOTICED
    print(judge.broken or f"pytest has ended with {code!r}")
    return BROKEN if judge.broken or code else SURVIVED


def _show(what: str) -> None:
    hook.show(what)
    os.environ.update(_shown(os.environ, what))
    popen: Any = subprocess.Popen
    original = popen.__init__

    def start(self: Any, *words: Any, env: Mapping[str, str] | None = None, **options: Any) -> None:
        """Also where a test says all that its process finds in its environment."""
        original(self, *words, env=env and _shown(env, what), **options)

    popen.__init__ = start


def _shown(environment: Mapping[str, str], what: str) -> dict[str, str]:
    path = [HOOK, *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(path), hook.VARIABLE: what}
