"""What the demonstrations print is what the page about naive ways says that they print."""

from __future__ import annotations

import re

import pytest

from example_project.demonstrations.stage import WAYS, outcomes, stage, table
from tests.docs.pages import DOCS, ROOT, blocks, steps, text_of

README = ROOT / "README.md"
PAGE = DOCS / "explanation" / "why-naive-ways-fail.md"
COMMAND = "python3 -m example_project.demonstrations"
pytestmark = pytest.mark.postgresql  # what the command needs


@pytest.mark.django_db(transaction=True)
def test_the_naive_ways_fail_as_the_page_says_and_ours_are_exact() -> None:
    with stage():
        found = outcomes(list(WAYS))
    for name, (naive, exact) in found.items():
        assert naive != exact, name
        assert (exact.counted, exact.remark) == (naive.expected, ""), name
    printed = {
        step.command: step.printed for b in blocks(PAGE, "console") for step in steps(b.text)
    }
    assert printed[COMMAND] == table(found) + "\n"
    # The README says the same in other words, in the same order.
    rows = re.findall(r"^\| .+ \| (\d+) \| (\d+)(?:, .+)? \| (\d+) \|$", text_of(README), re.M)
    assert [tuple(map(int, row)) for row in rows] == [
        (naive.expected, naive.counted, exact.counted) for naive, exact in found.values()
    ]
