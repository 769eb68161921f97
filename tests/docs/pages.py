"""What a page is made of: its blocks, with the lines where they begin, and the commands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*ROOT.glob("*.md"), *(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)],
)
BLOCK = re.compile(
    r"(?P<mark><!-- not run:(?P<reason>[^>]*)-->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A block of code.

    Attributes:
        line: the line of the page on which its text begins.
        why_not: why it is not run; None for one that is.
    """

    page: str
    line: int
    language: str
    text: str
    why_not: str | None


class Step(NamedTuple):
    """A command and what it is said to print."""

    command: str
    printed: str


def name_of(page: Path) -> str:
    """The path in the checkout, or all of it."""
    return str(page.relative_to(ROOT) if page.is_relative_to(ROOT) else page)


def text_of(page: Path) -> str:
    """What stands in a page."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """The blocks of these languages, in their order."""
    text = text_of(page)
    for found in BLOCK.finditer(text):
        if found["language"] in languages:
            line = text.count("\n", 0, found.start("text")) + 1
            why_not = found["reason"].strip() if found["mark"] else None
            block = dedent(found["text"])
            yield Block(name_of(page), line, found["language"], block, why_not)


def steps(text: str) -> Iterator[Step]:
    """The commands of a block.

    One goes on where its line ends with a backslash, and where the next one begins with ``>``.
    """
    for step in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        first, *rest = step.splitlines()
        more = [line for line in rest if line.startswith(">")]
        command = "\n".join([first, *(line[2:] for line in more)])
        yield Step(command, "".join(f"{line}\n" for line in rest[len(more) :]))
