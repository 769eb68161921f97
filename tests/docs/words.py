"""How plain the prose of a page is: what can be counted of it."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path
from typing import NamedTuple

from tests.docs.pages import text_of

LONG = 30
# A clause that stands where readers expect a noun, and pronouns for people instead of their role.
_BEFORE = r"(?:^|[.,;:] |\b(?:and|but|that|of|than|for) )"
_VERBS = (
    "is|was|were|are|waits|has|had|comes|came|others|nobody|stands|this|it|they|you|a|an|the"
    "|landed|somebody"
)
MARKER = re.compile(
    rf"{_BEFORE}[Ww]hat (?:{_VERBS})\b"
    r"|\b(?:[Ww]hoever|[Ww]hatever|[Nn]obody|[Ss]omebody)\b"
    r"|(?:^|[.] )Who \w+s\b",
    re.MULTILINE,
)
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# Tables, headings, fields and anchors are no sentences.
_NO_PROSE = re.compile(r"^(?:[|#:].*|\([\w-]+\)=)$", re.MULTILINE)
_BLOCK_ENDS = re.compile(r"\n\s*\n|\n(?=[-*] |\d+\. )")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?:])\s+")


class Plainness(NamedTuple):
    """The measure of a page.

    Attributes:
        markers: markers of roundabout prose in 1,000 words, rounded up.
        long_sentences: how many sentences have more than ``LONG`` words.
    """

    markers: int
    long_sentences: int


def prose(text: str) -> str:
    """The sentences of a page. A piece of code in one is a word."""
    text = _CODE.sub("X", _COMMENT.sub("", _FENCE.sub("", text)))
    return _NO_PROSE.sub("", _LINK.sub(r"\1", _IMAGE.sub("", text)))


def measure(text: str) -> Plainness:
    """Measure the text of a page."""
    sentences = prose(text)
    words = len(re.findall(r"[\w'\u2019-]+", sentences))
    found = len(MARKER.findall(sentences))
    blocks = _BLOCK_ENDS.split(sentences)
    lengths = [len(one.split()) for b in blocks for one in _SENTENCE_ENDS.split(b.strip())]
    return Plainness(ceil(1000 * found / max(words, 1)), sum(n > LONG for n in lengths))


def measure_page(page: Path) -> Plainness:
    """Measure a page."""
    return measure(text_of(page))
