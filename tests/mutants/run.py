"""Tries mutants: ``python3 -m tests.mutants [--all | word ...]``.

With words it tries those whose names have one of them; with ``--all`` all. Without either it tries
up to 150 whose function or whose test changed since the last release, and 30 others, drawn by the
date: it prints from which commit and by which date. ``COUNTERS_DAY=2026-11-26`` draws those of that
day.

Each is tried in a process of its own, which sees one module with the change, in databases of its
own; the test that guards the mechanism has to fail there. A mutant that survives fails the run,
and so does one that is noticed for the wrong reason: because a module cannot be imported or a
fixture fails. Tests of races may miss their moment on a busy machine, so a mutant that survived is
tried three times more at the end, alone; it fails the run if it survives all of them.

This process imports what all need and none changes; a fork of it begins where that ends.
"""

from __future__ import annotations

import gc
import importlib
import os
import random
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutants import chosen, databases
from tests.mutants.crew import Crew
from tests.mutants.mutant import CONTROLS, MUTANTS, Mutant
from tests.mutants.trial import BROKEN, NOTICED, SURVIVED, forked

ATTEMPTS_ALONE = 3
UNCHANGED = "control: nothing is changed"
DRAWN = 8
# What the tests import of others, as far as it asks for no settings.
WARM = (
    "django.contrib.admin.sites",
    "django.contrib.postgres.fields",
    "django.core.cache.backends.redis",
    "django.db.backends.postgresql.base",
    "django.db.migrations.state",
    "django.test",
    "hypothesis.internal.conjecture.engine",
    "pytest_django.plugin",
    "redis.asyncio.cluster",
    "requests",
    "uritemplate",
    "yaml",
)


def main(argv: Sequence[str]) -> int:
    """Try the mutants that ``argv`` asks for; return 0 if each was noticed."""
    if {"-h", "--help"} & set(argv):
        print(__doc__)
        return 0
    mutants = chosen.by(argv, MUTANTS)
    if not mutants:
        print(f"no mutant has one of these words in its name: {list(argv)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        _prepare(Path(folder))
        with _originals(Path(folder)):
            missed = _missed(Crew(Path(folder)), mutants)
    if missed is None:
        return 1
    # At the end, where whoever reads only that finds them.
    print(*(f"not noticed: {mutant.name}" for mutant in missed), sep="\n")
    print(f"{len(mutants) - len(missed)} of {len(mutants)} mutants were noticed")
    return 1 if missed else 0


def _missed(crew: Crew, mutants: Sequence[Mutant]) -> list[Mutant] | None:
    """Those that were not noticed; None where the crew cannot tell."""
    # Some of the tests must pass where nothing is changed: others in each run.
    drawn = random.sample(list(mutants), min(DRAWN, len(mutants)))
    plain = [Mutant(f"{UNCHANGED} for {one.name}", one.where, (), one.test) for one in drawn]
    tried = crew.tried([*CONTROLS, *plain])
    wrong = [mutant.name for mutant, code in tried if code != _due(mutant)]
    if wrong:
        print(f"no trial can be believed, as these have ended otherwise than they should: {wrong}")
        return None
    codes = list(crew.tried(mutants))
    broken = [mutant for mutant, code in codes if code == BROKEN]
    survived = [mutant for mutant, code in codes if code == SURVIVED]
    again = crew.tried(survived, ATTEMPTS_ALONE, at_once=1)
    return broken + [mutant for mutant, code in again if code != NOTICED]


def _due(control: Mutant) -> int:
    return SURVIVED if control.name.startswith(UNCHANGED) else BROKEN


def _prepare(folder: Path) -> None:
    """What a trial leaves beside its result goes with the folder."""
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # Else pytest compares all of what differs line by line: of a long one it takes minutes.
    for name in ("CI", "BUILD_NUMBER"):
        os.environ.pop(name, None)
    for module in WARM:
        importlib.import_module(module)
    # pytest collects garbage ten times as it ends: what all have in common is none.
    gc.freeze()
    # From now on all modules are compiled once, also where nothing is to be written beside them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(folder / "compiled")
    sys.dont_write_bytecode = False


@contextmanager
def _originals(folder: Path) -> Iterator[None]:
    run = secrets.token_hex(4)
    os.environ[databases.ORIGINAL] = databases.original(run)
    log = folder / "log"
    try:
        number = forked(run, log, databases.make)
        if os.waitpid(number, 0)[1]:
            raise RuntimeError(log.read_text())
        yield
    finally:
        databases.drop(run)
