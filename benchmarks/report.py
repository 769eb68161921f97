"""The same rows for people, for programs, and for the documentation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Report:
    """What was measured, and on what.

    Attributes:
        machine: what ``--json`` says of the machine.
        lines: the same for people.
        results: one per case.
    """

    machine: dict[str, str | int]
    lines: Sequence[str]
    results: Sequence[Result]

    def json(self) -> str:
        """One object; times are in microseconds for one operation."""
        rows = [_fields(result) for result in self.results]
        return json.dumps({"machine": self.machine, "rows": rows}, indent=2, ensure_ascii=False)

    def text(self) -> str:
        """A table for a terminal."""
        rows = [HEAD, *map(_cells, self.results)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [_aligned(row, widths, "  ").rstrip() for row in rows]
        return "\n".join([*self.lines, "", *table, "", NOTE])

    def markdown(self) -> str:
        """A table for the documentation."""
        rows = [HEAD, tuple("---" for _ in HEAD), *map(_cells, self.results)]
        table = [f"| {' | '.join(row)} |" for row in rows]
        machine = [f"- {line}" for line in self.lines]
        return "\n".join([*table, "", NOTE, "", *machine])


NOTE = (
    "A ratio is the median of the rounds. With ≥ it compares rates (2 is twice as fast), "
    "with ≤ costs."
)


def _fields(result: Result) -> dict[str, str | float | bool]:
    return {
        "case": result.case.name,
        "subject": result.case.subject,
        "reference": result.case.reference,
        "ratio": round(result.ratio, 4),
        "min": round(result.least, 4),
        "max": round(result.greatest, 4),
        "target": result.case.target.number,
        "target_type": result.case.target.kind,
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
        str(target),
        "met" if result.met else "missed",
        f"{result.subject_cost * 1e6:,.1f}",
        f"{result.reference_cost * 1e6:,.1f}",
    )


def _figure(ratio: float, target: Target) -> str:
    """A ratio, with a digit more than its target needs, so that rounding does not hide a miss."""
    return f"{ratio:.2f}" if target.number >= 2 else f"{ratio:.3f}"


def _aligned(row: Sequence[str], widths: Sequence[int], gap: str) -> str:
    return gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
