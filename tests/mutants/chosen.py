"""Which mutants a run tries."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache

from tests.mutants.mutant import CATALOGUES, ROOT, Mutant, NotThere, part_of, read

CHANGED, SAMPLE = 150, 30
DAY = 24 * 60 * 60


def by(words: Sequence[str], mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants that the arguments of a run ask for; print how they were chosen."""
    if words and "--all" not in words:
        return [one for one in mutants if any(word in one.name for word in words)]
    base = None if words else _base()
    if base is None:
        print(f"{len(mutants)} mutants: all" + ("" if words else ", as no earlier commit is here"))
        return list(mutants)
    files = set(_git("diff", "--name-only", base).split("\n"))
    entries = {one for name in CATALOGUES for one in read(_before(base, name))}
    changed = [one for one in mutants if one not in entries or _has_changed(one, base, files)]
    rest = [one for one in mutants if one not in changed]
    day = os.environ.get("COUNTERS_DAY") or datetime.now(UTC).date().isoformat()
    chance = random.Random(day)
    tried = chance.sample(changed, min(CHANGED, len(changed)))
    drawn = chance.sample(rest, min(SAMPLE, len(rest)))
    about = _git("log", "-1", "--format=%h of %cs (%s)", base).strip()
    print(f"{len(tried)} of {len(changed)} mutants that changed since {about}: drawn likewise")
    print(f"{len(drawn)} of the {len(rest)} others: drawn by COUNTERS_DAY={day}")
    return [one for one in mutants if one in {*tried, *drawn}]


def _base() -> str | None:
    """The last release; before the first one, the last commit a day older than the newest.

    None if there is no such commit, or no repository at all.
    """
    try:
        release = _git("tag", "--list", "--merged=HEAD", "--sort=-creatordate").split()
        if release:
            return release[0]
        newest = int(_git("log", "-1", "--format=%ct"))
        return _git("rev-list", "-1", f"--before={newest - DAY}", "HEAD").strip() or None
    except (OSError, subprocess.CalledProcessError):
        return None


def _has_changed(mutant: Mutant, base: str, files: set[str]) -> bool:
    test, _, names = mutant.test.partition("[")[0].partition("::")
    places = [
        (mutant.file.relative_to(ROOT).as_posix(), mutant.where.partition(":")[2]),
        (test, names.replace("::", ".")),
    ]
    return any(
        _part(_before(base, file), name) != _part((ROOT / file).read_text(), name)
        for file, name in places
        if file in files
    )


@cache
def _before(base: str, file: str) -> str:
    try:
        return _git("show", f"{base}:{file}")
    except subprocess.CalledProcessError:  # it is new
        return ""


@cache
def _part(text: str, name: str) -> str | None:
    try:
        return part_of(text, name) if name else text
    except NotThere:
        return None


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8"
    )
    return done.stdout
