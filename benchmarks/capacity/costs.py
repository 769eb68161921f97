"""What was measured: the costs of one increment, of one row of upkeep, of one thing that is kept.

Needs the standard library alone. Times are in seconds of a processor, sizes in bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

NONE = "n/a"


class NotMeasured(Exception):
    """A plan needs a cost that this machine could not tell."""


@dataclass(frozen=True)
class Span:
    """The median of the rounds, with the least and the greatest."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Span:
        """What some rounds have told."""
        return cls(statistics.median(numbers), min(numbers), max(numbers))

    def fields(self) -> dict[str, float]:
        """For JSON."""
        return {"median": self.median, "min": self.least, "max": self.greatest}

    @classmethod
    def parsed(cls, fields: Mapping[str, float]) -> Span:
        """From JSON."""
        return cls(fields["median"], fields["min"], fields["max"])

    def shown(self, scale: float, digits: int) -> str:
        """The median, and in brackets the least and the greatest."""
        one, least, greatest = (
            f"{number * scale:,.{digits}f}" for number in (self.median, self.least, self.greatest)
        )
        return f"{one} ({least} to {greatest})"


# What a cost is made of: its name, the head of its column, the scale and the digits shown there.
PARTS = (
    ("client", "client CPU, µs", 1e6, 1),
    ("database", "PostgreSQL CPU, µs", 1e6, 1),
    ("redis", "Redis CPU, µs", 1e6, 1),
    ("wal", "WAL, bytes", 1, 0),
    ("log", "append-only file, bytes", 1, 0),
    ("seconds", "wall clock, µs", 1e6, 1),
)


@dataclass(frozen=True)
class Cost:
    """What one operation takes.

    Attributes:
        name: what plans call it.
        words: what it is, for people.
        client: seconds of a processor in the process that counts, or does the upkeep.
        database: those of all processes of PostgreSQL; None where they cannot be seen.
        redis: those of Redis.
        wal: bytes of PostgreSQL's write-ahead log.
        log: bytes of the append-only file of Redis; None where it writes none.
        seconds: what one caller waits.
    """

    name: str
    words: str
    client: Span
    database: Span | None
    redis: Span
    wal: Span
    log: Span | None
    seconds: Span

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        parts: dict[str, Span | None] = {name: getattr(self, name) for name, *_ in PARTS}
        spans = {name: span and span.fields() for name, span in parts.items()}
        return {"name": self.name, "words": self.words, **spans}

    @classmethod
    def parsed(cls, fields: Mapping[str, Any]) -> Cost:
        """From JSON."""
        spans: dict[str, Any] = {
            name: fields[name] and Span.parsed(fields[name]) for name, *_ in PARTS
        }
        return cls(fields["name"], fields["words"], **spans)

    def cells(self) -> list[str]:
        """One line of a table."""
        shown = []
        for name, _, scale, digits in PARTS:
            span: Span | None = getattr(self, name)
            shown.append(NONE if span is None else span.shown(scale, digits))
        return [self.words, *shown]


@dataclass(frozen=True)
class Figure:
    """One number with its unit, such as a size or a rate."""

    name: str
    words: str
    unit: str
    span: Span

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        named = {"name": self.name, "words": self.words, "unit": self.unit}
        return {**named, **self.span.fields()}

    @classmethod
    def parsed(cls, fields: Mapping[str, Any]) -> Figure:
        """From JSON."""
        return cls(fields["name"], fields["words"], fields["unit"], Span.parsed(fields))

    def cells(self) -> list[str]:
        """One line of a table."""
        digits = 0 if self.span.median >= 20 else 1
        return [self.words, self.unit, self.span.shown(1, digits)]


_Named = TypeVar("_Named", Cost, Figure)


@dataclass(frozen=True)
class Capacity:
    """All unit costs of one machine.

    Attributes:
        machine: what they were measured on.
        costs: of one increment, and of one row of upkeep.
        figures: what one counter took, and what one thing that is kept takes.
    """

    machine: Mapping[str, str | int]
    costs: tuple[Cost, ...]
    figures: tuple[Figure, ...]

    def cost(self, name: str) -> Cost:
        """The cost with a name.

        Raises:
            NotMeasured: there is none.
        """
        return _named(self.costs, name)

    def figure(self, name: str) -> float:
        """The median of the figure with a name.

        Raises:
            NotMeasured: there is none.
        """
        return _named(self.figures, name).span.median

    def fields(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {
            "machine": dict(self.machine),
            "costs": [one.fields() for one in self.costs],
            "figures": [one.fields() for one in self.figures],
        }

    @classmethod
    def parsed(cls, fields: Mapping[str, Any]) -> Capacity:
        """From JSON."""
        return cls(
            fields["machine"],
            tuple(map(Cost.parsed, fields["costs"])),
            tuple(map(Figure.parsed, fields["figures"])),
        )

    def markdown(self) -> list[str]:
        """The lines of two tables, and below them on what it was measured."""
        heads = ["one", *(head for _, head, *_ in PARTS)]
        return [
            *ruled([heads, *(one.cells() for one in self.costs)]),
            "",
            *ruled([["figure", "unit", "median (min to max)"], *(f.cells() for f in self.figures)]),
            "",
            self.measured_on(),
        ]

    def measured_on(self) -> str:
        """When and on what, in a line."""
        known = dict(self.machine)
        return (
            f"Measured on {known['date']}: {known['system']}, {known['cores']} cores, "
            f"load {known['load']}, Python {known['python']}, Django {known['django']}, "
            f"PostgreSQL {known['postgresql']} ({known['durability']}), {known['redis']}, "
            f"{known['rounds']} rounds."
        )


def _named(several: Sequence[_Named], name: str) -> _Named:
    for one in several:
        if one.name == name:
            return one
    raise NotMeasured(f"{name!r} was not measured")


def ruled(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table for the documentation; the first row is its head."""
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return [head, f"| {' | '.join('---' for _ in rows[0])} |", *others]
