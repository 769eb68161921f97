"""Tries mutants.

A copy of the project is changed, and the test that guards the mechanism runs against the copy. It
has to fail: a mutant that survives fails this run, and so does one whose text is not found. Tests
of races may miss their moment on a busy machine, so a mutant has survived when nobody noticed it
three times in a row.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 300
AT_ONCE = 2
ATTEMPTS = 3
PARTS = ("django_counters", "example_project", "tests", "pyproject.toml")


def main(argv: Sequence[str]) -> int:
    """Try all mutants, or those whose name contains one of ``argv``; 0 if each was noticed."""
    chosen = [m for m in MUTANTS if not argv or any(word in m.name for word in argv)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        noticed = sum(pool.map(_tried, chosen))
    print(f"{noticed} of {len(chosen)} mutants were noticed")
    return 0 if noticed == len(chosen) else 1


def _tried(mutant: Mutant) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return _is_noticed(mutant, Path(folder))


def _is_noticed(mutant: Mutant, copy: Path) -> bool:
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / part)
    changed = copy / mutant.file
    text = changed.read_text()
    if mutant.old not in text:
        print(f"{mutant.name}: {mutant.file} does not have what it changes")
        return False
    mutated = text.replace(mutant.old, mutant.new)
    # One that does not even compile would be noticed for the wrong reason.
    compile(mutated, mutant.file, "exec")
    changed.write_text(mutated)
    return any(_fails(mutant, copy) for _ in range(ATTEMPTS))


def _fails(mutant: Mutant, copy: Path) -> bool:
    options = ["-qx", "--slow", "--tb=line", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, mutant.test],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    last = (run.stdout.strip().splitlines() or [run.stderr[-200:]])[-1]
    # 1: tests ran and some failed. Anything else is a mistake in the mutant itself.
    noticed = run.returncode == 1
    print(f"{'noticed ' if noticed else 'SURVIVED'}  {mutant.name}: {last}", flush=True)
    if run.returncode not in (0, 1):
        print(run.stdout[-2000:], run.stderr[-2000:])
    return noticed
