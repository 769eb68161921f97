"""What the demonstrations print is what the page about naive ways says that they print."""

from __future__ import annotations

import re

import pytest

from example_project.demonstrations.outcome import Outcome
from example_project.demonstrations.stage import OURS, USUAL, WAYS, outcomes, stage, table
from tests.docs.pages import DOCS, ROOT, blocks, steps, text_of

README = ROOT / "README.md"
PAGE = DOCS / "explanation" / "why-naive-ways-fail.md"
COMMAND = "python3 -m example_project.demonstrations"
pytestmark = pytest.mark.postgresql  # what the command needs


@pytest.mark.django_db(transaction=True)
def test_each_way_counts_what_the_pages_say_and_ours_is_exact() -> None:
    with stage():
        counted = outcomes(list(WAYS))
    for name, ways in counted.items():
        assert ways[USUAL].verdict != "exact", name
        assert (ways[OURS].verdict, ways[OURS].remark) == ("exact", ""), name
    printed = {
        step.command: step.printed for b in blocks(PAGE, "console") for step in steps(b.text)
    }
    assert printed[COMMAND] == table(counted) + "\n"
    # The README has the numbers, in the same order; a wrong one is bold.
    rows = re.findall(r"^\| .+? \| (\d+) \| (.+) \|$", text_of(README), re.MULTILINE)
    assert [(int(done), cells.split(" | ")) for done, cells in rows] == [
        (ways[OURS].expected, [_shown(way) for way in ways.values()]) for ways in counted.values()
    ]


def _shown(way: Outcome) -> str:
    return str(way.counted) if way.verdict == "exact" else f"**{way.counted}**"
