"""Users read plain words. The limits are a ratchet: they are lowered and never raised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs import code
from tests.docs.pages import DOCS, PAGES, ROOT, name_of
from tests.docs.words import LONG, Plainness, measure, measure_page

MOST = Plainness(markers=2, long_sentences=0)
IN_CODE = Plainness(markers=1, long_sentences=0)
# Markers in 1,000 words, over docstrings and comments of all files.
EXPLAINED = 2
# Benchmarks are records of their day.
RECORDS = (DOCS / "benchmarks",)
READ = [
    page
    for page in PAGES
    if (page == ROOT / "README.md" or DOCS in page.parents) and page.parent not in RECORDS
]


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_a_page_is_written_in_plain_words(page: Path) -> None:
    found = measure_page(page)
    assert found.markers <= MOST.markers, "use a noun for 'what is', 'whoever', 'nobody'"
    assert found.long_sentences <= MOST.long_sentences, f"split sentences of over {LONG} words"


@pytest.mark.parametrize("texts", [code.documented, code.messages])
def test_the_texts_of_the_code_are_written_in_plain_words(texts: Callable[[], set[str]]) -> None:
    found = texts()
    assert len(found) > 300
    together = measure("\n\n".join(sorted(found)).replace("``", "`"))
    assert together.markers <= IN_CODE.markers, "use a noun for 'what is', 'whoever', 'nobody'"
    assert together.long_sentences <= IN_CODE.long_sentences, f"split those of over {LONG} words"


def test_the_explanations_in_the_code_are_written_in_plain_words() -> None:
    """Docstrings and comments of all files: developers read them."""
    found = code.explained()
    assert len(found) > 4000
    together = measure("\n\n".join(sorted(found)).replace("``", "`"))
    assert together.markers <= EXPLAINED, "use a noun for 'what is', 'whoever', 'nobody'"


@pytest.mark.parametrize(
    "text",
    [
        "What waits in Redis lands later.",
        "Whoever asks, nobody knows.",
        "It ends. Who asks again gets the same.",
        "It is less than what was counted.",
        f"It has {'many ' * LONG}words.",
    ],
)
def test_a_bad_page_is_found(text: str) -> None:
    found = measure(text)
    assert found.markers > MOST.markers or found.long_sentences > MOST.long_sentences


def test_code_tables_and_headings_are_no_prose() -> None:
    code = "```python\n# Whoever reads this\n```\n"
    assert measure(f"{code}# What is kept\n\n| Nobody |\n\nSee `nobody` there.") == (0, 0)
