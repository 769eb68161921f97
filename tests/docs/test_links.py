"""Links lead somewhere: to files, to headings in them, to pictures; other sites by https."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import DOCS, PAGES, name_of

CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^( *)(```+|~~~+).*?^\1\2$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINED = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
BARE = re.compile(r"(?:https?://|www\.)[^\s<>)\]\"'|`]+")
HEADING = re.compile(r"^(#{1,6}) +(.*?) *#*$", re.MULTILINE)
TARGET = re.compile(r"^\(([\w-]+)\)=$|<a (?:id|name)=\"([^\"]+)\"", re.MULTILINE)
PICTURES = (".png", ".svg", ".jpg", ".jpeg", ".webp", ".gif")
HERE = ("localhost", "127.0.0.1")
# As docs/conf.py: deeper headings have no anchor.
DEPTH = 3

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def words_of(page: Path) -> str:
    """The text without code."""
    return CODE.sub("", page.read_text(encoding="utf-8"))


def links(text: str) -> Iterator[tuple[bool, str, str]]:
    """Whether it is a picture, its text, and where it leads."""
    for mark, words, target in LINK.findall(text):
        yield mark == "!", words, target
    for target in DEFINED.findall(text):
        yield False, target, target


def slug(heading: str) -> str:
    """The anchor that MyST gives to a heading, and GitHub, too."""
    shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    shown = re.sub(r"[`*]", "", shown)
    return re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    """What can stand after the # of a link to a page."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    inside = DOCS in page.parents
    headings = [h for marks, h in HEADING.findall(text) if not inside or len(marks) <= DEPTH]
    seen: Counter[str] = Counter()
    found = {one or other for one, other in TARGET.findall(text)}
    for name in map(slug, headings):
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(found)


def wrong_link(page: Path, target: str) -> str | None:
    """Why a link leads nowhere; None if it leads somewhere."""
    if re.match(r"[a-z][a-z+.-]*:", target):
        return wrong_address(target)
    path, _, anchor = target.partition("#")
    file = (page.parent / unquote(path)).resolve() if path else page
    if not file.exists():
        return f"there is no {path}"
    if anchor and file.suffix == ".md" and unquote(anchor) not in anchors(file):
        return f"{file.name} has no #{anchor}"
    return None


def wrong_address(address: str) -> str | None:
    """Why an address of another site is none."""
    parts = urlsplit(address)
    if parts.scheme == "mailto":
        return None if re.fullmatch(r"[^@\s]+@[\w-]+(\.[\w-]+)+", parts.path) else "no address"
    if parts.hostname in HERE:
        return None
    if parts.scheme != "https":
        return "it is not https"
    if not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.hostname or ""):
        return f"{parts.hostname!r} is no host"
    return "it ends with a mark" if re.search(r"[.,;:!]$", address) else None


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    found = {target: wrong_link(page, target) for _, _, target in links(words_of(page))}
    assert {target: why for target, why in found.items() if why} == {}


@every_page
def test_pictures_are_there_and_described(page: Path) -> None:
    for picture, words, target in links(words_of(page)):
        if picture and not target.startswith("https:"):
            assert (page.parent / target).resolve().is_file(), target
            assert target.endswith(PICTURES), target
            assert words.strip(), f"{target} is not described"


@every_page
def test_addresses_of_other_sites_are_whole(page: Path) -> None:
    found = {
        address: wrong_address(address.rstrip(".,;:")) for address in BARE.findall(words_of(page))
    }
    assert {address: why for address, why in found.items() if why} == {}


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("What Redis can lose", "what-redis-can-lose"),
        ("`counters verify-audit`", "counters-verify-audit"),
        ("A light history: `HISTORY`, & more", "a-light-history-history--more"),
        ("[Links](x.md) and *stress*", "links-and-stress"),
    ],
)
def test_a_heading_has_the_anchor_of_myst(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


@pytest.mark.parametrize(
    "target",
    [
        "nowhere.md",
        "docs/nowhere.md#a",
        "docs/tutorial.md#nothing",
        "#nothing",
        "http://example.org/",
        "https://host/path",
        "https://",
        "ftp://example.org/",
        "mailto:nobody",
    ],
)
def test_a_link_to_nowhere_is_found(target: str) -> None:
    assert wrong_link(DOCS.parent / "README.md", target)


def test_a_heading_that_stands_twice_has_two_anchors(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n## B\n\n## B\n\n(c)=\n## D\n\n```text\n# E\n```\n", encoding="utf-8")
    assert anchors(page) == {"a", "b", "b-1", "c", "d"}
