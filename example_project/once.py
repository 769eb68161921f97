"""Counts an access log so that each line counts once, however often it is replayed.

A token stands for the lines of a day in a block, and is used in the transaction that counts them.
Blocks are cut at the same bytes whoever counts, so a run that was killed is just started again.

A new process imports this before it has settings, so nothing here imports a model at the top.
"""

from __future__ import annotations

import hashlib
from collections import Counter as Sums
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from django_counters import Token, TokenConflict, short_key
from example_project.access_log import (
    Entry,
    Line,
    Part,
    lines_with_places,
    parse,
    up_to_status,
    without_end,
)
from example_project.counting import Counted, Way, happened

BYTES_OF_A_BLOCK = 65_536


class OtherLines(Exception):
    """Lines were counted before as the beginning of something else."""


class Placed(NamedTuple):
    """What is counted of a line, and the text that names the line."""

    entry: Entry
    token: str


def once(scope: str) -> Way:
    """The way to count what was not counted before under this scope."""
    return Way(blocks, partial(count_block, scope=scope))


def blocks(size: int, _workers: int = 1) -> list[Part]:
    """Cut a file into blocks. A file that has grown has the same ones, and more."""
    cuts = range(0, size, BYTES_OF_A_BLOCK)
    return [Part(start, start + BYTES_OF_A_BLOCK) for start in cuts]


def count_block(path: Path, part: Part, scope: str) -> Counted:
    """Count the lines that begin in a block, unless they were counted."""
    lines = list(lines_with_places(path, part))
    placed = [found for found in map(_placed, lines) if found]
    is_whole = bool(lines) and lines[-1].end >= part.end and lines[-1].content.endswith(b"\n")
    days: dict[datetime, list[Placed]] = {}
    for one in placed:
        days.setdefault(one.entry.day, []).append(one)
    count = _count if is_whole else _count_singly
    replayed = sum(count(lines, scope) for lines in days.values())
    texts = {full for one in placed for full in one.entry.counters()}
    keys = {full: short_key(full) for full in texts}
    return Counted(
        lines=len(lines),
        malformed=len(lines) - len(placed),
        shortened={full: key for full, key in keys.items() if full != key},
        replayed=replayed,
    )


def _count(placed: list[Placed], scope: str) -> int:
    """Count all lines of a day of a block in one transaction; how many were counted before."""
    try:
        return _increment(placed, scope)
    except TokenConflict:
        # The file ended within this block, so its lines were counted singly: the first one of the
        # day, whose token is that of all, was not counted with the others.
        return _count_singly(placed, scope)


def _count_singly(placed: list[Placed], scope: str) -> int:
    """Count lines in a transaction each: lines at the end of a file, to which others may come."""
    try:
        return sum(_increment([one], scope) for one in placed)
    except TokenConflict as conflict:
        raise OtherLines(
            f"the lines from byte {placed[0].token.partition(':')[0]} on were counted before, "
            "together with lines that are not there now: was the file cut, or is it another one?"
        ) from conflict


def _increment(placed: list[Placed], scope: str) -> int:
    """Count lines together; how many of them were counted before, which is all or none."""
    from django_counters.models import Counter

    if not placed:
        return 0
    sums = Sums(short_key(key) for one in placed for key in one.entry.counters())
    first = placed[0]
    token, at = Token(first.token, scope), happened(first.entry.day)
    done = Counter.objects.increment_many(sums, token=token, at=at)
    return len(placed) if done.replayed else 0


def _placed(line: Line) -> Placed | None:
    """The token has the place of the line, since two lines with one text are two requests."""
    content = without_end(line.content)
    entry = parse(content)
    if entry is None:
        return None
    text = hashlib.sha256(up_to_status(content)).hexdigest()
    return Placed(entry, f"{line.start}:{text}")
