"""Links lead somewhere. Sphinx follows those of the documentation; these are all others."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.docs.pages import DOCS, PAGES, ROOT, text_of

# Pages for maintainers, which Sphinx leaves out.
WHY = DOCS / "why"
CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
# Rows of the benchmarks, by their names: "Rows `hold`, `hold-naive`".
ROWS = re.compile(r"\b[Rr]ows?((?:(?:\s|,|and)+`[a-z0-9-]+`)+)")


def anchors(page: Path) -> set[str]:
    """What can stand after the # of a link to a page."""
    shown = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text_of(page)))
    return {heading.strip().replace(" ", "-") for heading in shown}


def test_links_lead_somewhere() -> None:
    looked_at = 0
    for page in (one for one in PAGES if DOCS not in one.parents or WHY in one.parents):
        for link in LINK.findall(CODE.sub("", text_of(page))):
            path, _, anchor = "".join(link).partition("#")
            if not re.match(r"[a-z]+:", path):
                looked_at += 1
                file = page.parent / path if path else page
                assert file.exists(), f"{page}: {path}"
                assert not anchor or anchor in anchors(file), f"{page}: {path}#{anchor}"
    assert looked_at > 20


def test_reasons_are_listed_and_name_measured_rows() -> None:
    results = json.loads((DOCS / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    measured = {row["case"] for row in results["rows"]}
    listed = text_of(ROOT / "CONTRIBUTING.md")
    named: set[str] = set()
    for page in WHY.glob("*.md"):
        assert f"(docs/why/{page.name})" in listed
        for rows in ROWS.findall(text_of(page)):
            named |= set(re.findall(r"`([^`]+)`", rows))
    assert len(named) > 20
    assert named <= measured
