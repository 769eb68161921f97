"""Counts an access log a second time, in plain Python that shares nothing with the first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_METHOD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ_-")


@dataclass(frozen=True)
class Recount:
    """What a single pass over the file found."""

    lines: int
    malformed: int
    totals: Counter[str]


def recount(path: Path) -> Recount:
    """Read the whole file once and count in memory."""
    totals: Counter[str] = Counter()
    lines = malformed = 0
    with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        for line in file:
            lines += 1
            keys = _keys(line.removesuffix("\n").removesuffix("\r"))
            malformed += not keys
            totals.update(keys)
    return Recount(lines, malformed, totals)


def _keys(line: str) -> tuple[str, ...]:
    host, space, rest = line.partition(" ")
    _, bracket, rest = rest.partition("[")
    when, closing, rest = rest.partition('] "')
    request, rest = _quoted(rest)
    status = rest[:3]
    words = request.split(" ")
    hour = _hour(when)
    sound = all((host, space, bracket, closing, hour, len(words) > 1 and words[1]))
    if not sound or not _is_method(words[0]) or not _is_status(status) or rest[3:4].strip(" "):
        return ()
    return (f"page:{words[1].split('?')[0]}", f"status:{status}", f"hour:{hour}")


def _quoted(text: str) -> tuple[str, str]:
    """What stands before the closing quote, and what after it and a space; else two nothings."""
    escaped = False
    for place, character in enumerate(text):
        if character == '"' and not escaped:
            after = text[place + 1 :]
            return (text[:place], after[1:]) if after.startswith(" ") else ("", "")
        escaped = character == "\\" and not escaped
    return "", ""


def _is_method(word: str) -> bool:
    return bool(word) and word[0].isalpha() and set(word) <= _METHOD


def _is_status(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) == 3 and "100" <= text <= "599"


def _hour(when: str) -> str:
    """``2015-05-17T10`` of ``17/May/2015:10:05:03 +0000``; empty if there is no such moment."""
    if len(when) != 26 or not when.isascii() or when[3:6] not in _MONTHS:
        return ""
    if not (when[:2] + when[7:11] + when[12:14] + when[15:17] + when[18:20] + when[22:]).isdigit():
        return ""
    try:
        moment = datetime.strptime(when, "%d/%b/%Y:%H:%M:%S %z")
    except ValueError:
        return ""
    return moment.strftime("%Y-%m-%dT%H")
