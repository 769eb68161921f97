"""What the demonstrations print, and what the page about naive ways says that they print."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from example_project.demonstrations.outcome import Outcome
from example_project.demonstrations.stage import WAYS, outcomes, stage, table
from tests.docs.test_docs import DOCS, text_of
from tests.example.running import url_of_the_test

PAGE = text_of(DOCS / "explanation" / "why-naive-ways-fail.md")
PRINTED = re.compile(
    r"^```console\n\$ python3 -m example_project\.demonstrations\n(.*?)^```$", re.M | re.S
)
# What is done, and what the naive way counts of it.
KNOWN = {
    "read-add-write": Outcome(2, 1),
    "stale-save": Outcome(1, 0),
    "check-then-decrement": Outcome(1, 2),
    "any-order": Outcome(4, 2, "deadlock detected"),
    "try-again": Outcome(1, 2),
    "add-up-what-is-new": Outcome(3, 2),
    "cache-get-and-set": Outcome(4, 3),
    "killed-after-update": Outcome(3, 6),
}

pytestmark = pytest.mark.postgres


@pytest.fixture
def on_stage(transactional_db: None) -> Iterator[None]:
    with stage():
        yield


@pytest.mark.usefixtures("on_stage")
@pytest.mark.parametrize("name", WAYS)
def test_the_naive_way_fails_by_what_is_known_and_ours_is_exact(name: str) -> None:
    naive, exact = outcomes([name])[name]
    assert naive == KNOWN[name]
    assert (exact.counted, exact.remark) == (naive.expected, "")


@pytest.mark.usefixtures("on_stage")
def test_the_page_shows_what_is_printed() -> None:
    (shown,) = PRINTED.findall(PAGE)
    assert shown == table(outcomes(list(WAYS))) + "\n"


def test_each_demonstration_is_named_where_the_page_explains_it() -> None:
    explained, _, _ = PAGE.partition("## See all of them")
    assert re.findall(r"^Shown by `([\w-]+)`", explained, re.M) == list(WAYS)


@pytest.mark.django_db
def test_the_command_makes_a_database_of_its_own_and_drops_it() -> None:
    finished = _run("stale-save", "--json")
    assert finished.returncode == 0, finished.stderr
    expected = {"naive": Outcome(1, 0)._asdict(), "exact": Outcome(1, 1)._asdict()}
    assert json.loads(finished.stdout) == {"stale-save": expected}


@pytest.mark.django_db
def test_a_name_that_is_not_there_is_refused() -> None:
    finished = _run("nothing")
    assert (finished.returncode, finished.stdout[:19]) == (2, "there is no nothing")


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "example_project.demonstrations", *argv],
        env={**os.environ, "DATABASE_URL": url_of_the_test()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
