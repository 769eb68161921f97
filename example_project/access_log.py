"""Reading an access log in the combined format: which lines there are, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# What follows the status (size, referer, agent) may be missing or cut off.
_LINE = re.compile(
    r"""[^ ]+\ [^[]*                          # host, then identity and user
    \[(?P<day>[0-9]{2})/(?P<month>[A-Z][a-z]{2})/(?P<year>[0-9]{4})
    :(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})
    \ (?P<sign>[+-])(?P<east_hours>[0-9]{2})(?P<east_minutes>[0-9]{2})\]
    \ "[A-Z][A-Z_-]*\ (?P<target>(?:[^"\\ ]|\\.)+)(?:\ (?:[^"\\]|\\.)*)?"
    \ (?P<status>[1-5][0-9]{2})(?:\ |\Z)""",
    re.VERBOSE | re.DOTALL,
)


class Entry(NamedTuple):
    """What is counted of one line, and on which day: the one that is written, since 1970."""

    page: str
    status: str
    hour: str
    day: datetime

    def counters(self) -> tuple[str, str, str]:
        """The full texts of the counters of this line."""
        return f"page:{self.page}", f"status:{self.status}", f"hour:{self.hour}"


def parse(line: bytes) -> Entry | None:
    """Read one line, without its end; None if it is malformed.

    The hour is the one that is written, in the zone that is written.
    """
    found = _LINE.match(_text(line))
    if found is None:
        return None
    moment = _moment(found)
    if moment is None:
        return None
    page = found["target"].partition("?")[0]
    # At noon it is the same day in nearly every time zone.
    day = moment.replace(hour=12, minute=0, second=0, tzinfo=UTC)
    return Entry(page, found["status"], f"{moment:%Y-%m-%dT%H}", max(day, _FIRST))


def up_to_status(line: bytes) -> bytes:
    """The part of a well-formed line that counts: the same while its end is not yet written."""
    found = _LINE.match(_text(line))
    return found.string[: found.end("status")].encode("utf-8", "surrogateescape") if found else b""


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _moment(found: re.Match[str]) -> datetime | None:
    try:
        east = timedelta(hours=int(found["east_hours"]), minutes=int(found["east_minutes"]))
        if int(found["east_minutes"]) > 59 or found["month"] not in _MONTHS:
            return None
        return datetime(
            int(found["year"]),
            _MONTHS.index(found["month"]) + 1,
            int(found["day"]),
            int(found["hour"]),
            int(found["minute"]),
            int(found["second"]),
            tzinfo=timezone(-east if found["sign"] == "-" else east),
        )
    except ValueError:  # there is no such day, time or zone
        return None


class Part(NamedTuple):
    """A range of bytes; the lines that begin in it belong to it."""

    start: int
    end: int


def split(size: int, parts: int) -> list[Part]:
    """Cut ``size`` bytes into at most ``parts`` ranges, without looking at the file."""
    cuts = sorted({size * number // parts for number in range(parts + 1)})
    return [Part(start, end) for start, end in pairwise(cuts)]


class Line(NamedTuple):
    """One line with its end, and the byte at which it begins."""

    start: int
    content: bytes

    @property
    def end(self) -> int:
        """The byte after it."""
        return self.start + len(self.content)


def lines_with_places(path: Path, part: Part) -> Iterator[Line]:
    """Yield the lines that begin in a part.

    Parts that cover a file yield each of its lines exactly once, wherever they are cut.
    """
    with path.open("rb") as file:
        place = part.start
        if place:
            # A line begins here only if the byte before ends another one.
            file.seek(place - 1)
            place += len(file.readline()) - 1
        while place < part.end and (content := file.readline()):
            yield Line(place, content)
            place += len(content)


def lines_of(path: Path, part: Part) -> Iterator[bytes]:
    """Yield the lines that begin in a part, without their ends."""
    for line in lines_with_places(path, part):
        yield without_end(line.content)


def without_end(line: bytes) -> bytes:
    """A line without what ends it."""
    return line.removesuffix(b"\n").removesuffix(b"\r")
