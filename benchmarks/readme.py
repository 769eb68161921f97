"""The figures in the README: each stands after the name of its case, in a comment."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.results import Document, write

README = Path(__file__).resolve().parent.parent / "README.md"
UNKNOWN = "(not measured yet)"
MARKED = re.compile(r"<!--([a-z0-9-]+)-->.*?<!---->")


def render(document: Document) -> None:
    """Write the figures between their marks."""
    write(README, rendered(document, README.read_text(encoding="utf-8")))


def rendered(document: Document, text: str) -> str:
    """The README with the figures of these rows."""
    ratios = {row["case"]: _figure(row["ratio"]) for row in document["rows"]}

    def marked(found: re.Match[str]) -> str:
        return f"<!--{found[1]}-->{ratios.get(found[1], UNKNOWN)}<!---->"

    return MARKED.sub(marked, text)


def _figure(ratio: float) -> str:
    """Two digits that count: more would promise what no other machine keeps."""
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"
