"""Links lead somewhere. Sphinx follows those of the documentation; these are all others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import DOCS, PAGES, text_of

CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What can stand after the # of a link to a page."""
    shown = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text_of(page)))
    return {heading.strip().replace(" ", "-") for heading in shown}


def test_links_lead_somewhere() -> None:
    looked_at = 0
    for page in (one for one in PAGES if DOCS not in one.parents):
        for link in LINK.findall(CODE.sub("", text_of(page))):
            path, _, anchor = "".join(link).partition("#")
            if not re.match(r"[a-z]+:", path):
                looked_at += 1
                file = page.parent / path if path else page
                assert file.exists(), f"{page}: {path}"
                assert not anchor or anchor in anchors(file), f"{page}: {path}#{anchor}"
    assert looked_at > 20
