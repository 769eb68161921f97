"""Statements and commits that are cancelled, connections that are ended, time limits that come up.

What a call says is compared with what was counted. The window is held open: a server that logs a
statement looks for cancellations after it has committed, and ``commit_delay`` makes commits slow.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections import Counter as Sums

import pytest

from example_project.bootstrap import folders, postgres
from tests.faults.callers import ADJUSTED, COUNTED, LATE, LOGGED_IN, NOT_COUNTED, SHARED, UNKNOWN
from tests.faults.cells import cells_of, wrong_cells
from tests.faults.people import People
from tests.faults.scene import lines
from tests.faults.stage import SETTINGS, Stage

pytestmark = pytest.mark.faults
CALLS = 10_000
OPEN = {"log_min_duration_statement": "0", "commit_delay": "5000", "commit_siblings": "0"}
TRUE = {COUNTED: {1}, UNKNOWN: {0, 1}, LATE: {0, 1}, NOT_COUNTED: {0}}


def test_what_a_call_says_is_true(stage: Stage) -> None:
    url = stage.postgres.database(f"calls_{secrets.token_hex(4)}", postgres.DATABASE, OPEN)
    variables = {"DATABASE_URL": url, "REDIS_URL": "unix:///nobody"}
    told = subprocess.run(
        [sys.executable, "-m", "tests.faults.callers", stage.folder, str(stage.seed), str(CALLS)],
        env={**os.environ, **variables, "DJANGO_SETTINGS_MODULE": SETTINGS},
        cwd=folders.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    said = [line.split("\t") for line in lines(stage.folder.glob("caller*.log"))]
    counted = {
        key: int(value) for value, key in (x.split("\t") for x in lines([stage.folder / "counted"]))
    }
    found = Sums((key.split(":")[1], outcome, counted[key]) for outcome, key, _ in said)
    stage.tell("calls", f"seed {stage.seed}: {dict(sorted(found.items()))}")
    assert len(said) == CALLS // 4 * 4
    assert [row for row in found if row[2] not in TRUE[row[1]]] == []
    assert wrong_cells(cells_of(url), counted, {key: tag for _, key, tag in said}) == []
    # Nobody says who adjusts; over HTTP it is who is logged in.
    others = {ADJUSTED: "", "asked": str(LOGGED_IN)}
    came = {key: others.get(key.split(":")[1], key) for _, key, _ in said}
    people, together = People(url), [key for _, key, _ in said if ":many:" in key and counted[key]]
    assert people.wrong(counted, came, SHARED) == []
    for key in SHARED:
        assert counted[key] == len(together)
        assert not people.lacks(key, together)
        assert not people.has_others(key, together)
    # Each way was interrupted where nobody could tell, and where it was known, and it was done.
    outcomes = {row[:2] for row in found}
    ways = {way for way, _ in outcomes}
    assert outcomes >= {(way, told) for way in ways for told in (UNKNOWN, COUNTED, NOT_COUNTED)}
    assert {value for _, outcome, value in found if outcome == UNKNOWN} == {0, 1}
