"""The same rows for people, for programs, and for the documentation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.harness import Result, Target

HEAD = (
    "case",
    "subject",
    "reference",
    "ratio",
    "min to max",
    "target",
    "met",
    "subject, µs",
    "reference, µs",
)


# What a commit costs: the settings of a server by which blocks differ.
DURABILITY = ("fsync", "synchronous_commit")


@dataclass(frozen=True)
class Block:
    """What was measured on one server.

    Attributes:
        machine: what ``--json`` says of the machine and the server.
        lines: the same for people.
        results: one per case.
    """

    machine: dict[str, str | int]
    lines: Sequence[str]
    results: Sequence[Result]

    def rows(self) -> list[dict[str, Any]]:
        """The rows for programs; each says what its commits waited for."""
        server = {name: self.machine[name] for name in DURABILITY if name in self.machine}
        return [_fields(result) | server for result in self.results]

    def text(self) -> list[str]:
        """The lines of a table for a terminal."""
        rows = [HEAD, *map(_cells, self.results)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [_aligned(row, widths, "  ").rstrip() for row in rows]
        return [*self.lines, "", *table, ""]

    def markdown(self) -> list[str]:
        """The lines of a table for the documentation, and below them on what it was measured."""
        rows = [HEAD, tuple("---" for _ in HEAD), *map(_cells, self.results)]
        table = [f"| {' | '.join(row)} |" for row in rows]
        return [*table, "", *(f"- {line}" for line in self.lines), ""]


@dataclass(frozen=True)
class Report:
    """All blocks of one run, in the order in which they were measured."""

    blocks: Sequence[Block]

    def json(self) -> str:
        """One object; times are in microseconds for one operation."""
        rows = [row for block in self.blocks for row in block.rows()]
        document = {"machine": self._machine(), "rows": rows}
        return json.dumps(document, indent=2, ensure_ascii=False)

    def text(self) -> str:
        """A table for a terminal."""
        return "\n".join([*(line for block in self.blocks for line in block.text()), NOTE])

    def markdown(self) -> str:
        """A table for the documentation."""
        return "\n".join([*(line for block in self.blocks for line in block.markdown()), NOTE])

    def _machine(self) -> dict[str, str | int]:
        """As the first block says; where the servers differ in what a commit costs, all of it."""
        merged = dict(self.blocks[0].machine)
        for name in (*DURABILITY, "durability"):
            told = dict.fromkeys(str(b.machine[name]) for b in self.blocks if name in b.machine)
            if len(told) > 1:
                merged[name] = "; ".join(told)
        return merged


NONE = "–"  # noqa: RUF001
NOTE = (
    "A ratio is the median of the rounds. With ≥ or no target it compares rates (2 is twice as "
    "fast), with ≤ costs."
)


def _fields(result: Result) -> dict[str, Any]:
    target = result.case.target
    return {
        "case": result.case.name,
        "subject": result.case.subject,
        "reference": result.case.reference,
        "ratio": round(result.ratio, 4),
        "min": round(result.least, 4),
        "max": round(result.greatest, 4),
        "target": target and target.number,
        "target_type": target and target.kind,
        "met": result.met,
        "rounds": len(result.rounds),
        "subject_us": round(result.subject_cost * 1e6, 2),
        "reference_us": round(result.reference_cost * 1e6, 2),
    }


def _cells(result: Result) -> tuple[str, ...]:
    case, target = result.case, result.case.target
    span = f"{_figure(result.least, target)} to {_figure(result.greatest, target)}"
    return (
        case.name,
        case.subject,
        case.reference,
        _figure(result.ratio, target),
        span,
        NONE if target is None else str(target),
        {True: "met", False: "missed", None: NONE}[result.met],
        f"{result.subject_cost * 1e6:,.1f}",
        f"{result.reference_cost * 1e6:,.1f}",
    )


def _figure(ratio: float, target: Target | None) -> str:
    """A ratio, with a digit more than its target needs, so that rounding does not hide a miss."""
    return f"{ratio:.2f}" if (target.number if target else ratio) >= 2 else f"{ratio:.3f}"


def _aligned(row: Sequence[str], widths: Sequence[int], gap: str) -> str:
    return gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
