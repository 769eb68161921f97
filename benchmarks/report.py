"""The same rows for people, for programs, and for the documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks import waits
from benchmarks.curves import Curve, table
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


class Costs(Protocol):
    """The costs of units, measured."""

    def fields(self) -> Mapping[str, Any]:
        """All of it for JSON."""

    def markdown(self) -> list[str]:
        """The lines of a table for the documentation."""


@dataclass(frozen=True)
class Block:
    """What was measured on one server, up to now.

    Attributes:
        machine: what ``--json`` says of the machine and the server.
        lines: the same for people.
        results: one per case.
        curves: one per growth.
        costs: one where the costs of units were measured.
    """

    machine: dict[str, str | int]
    lines: Sequence[str]
    results: list[Result] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """The rows for programs; each says what its commits waited for."""
        server = {name: self.machine[name] for name in DURABILITY if name in self.machine}
        return [fields(result) | server for result in self.results]

    def text(self) -> list[str]:
        """The lines of a table for a terminal."""
        tables = [*_padded(self._rows()), *_padded(waits.rows(self.results))]
        for curve in self.curves:
            tables += [f"{curve.growth.title}: {curve.growth.y}", *_padded(table(curve.fields()))]
        return [
            *self.lines,
            "",
            *tables,
            *(line for costs in self.costs for line in costs.markdown()),
        ]

    def markdown(self) -> list[str]:
        """The lines of a table for the documentation, and below them on what it was measured."""
        tables = [*ruled(self._rows()), *ruled(waits.rows(self.results))]
        for curve in self.curves:
            tables += [f"{curve.growth.title}: {curve.growth.y}", "", *ruled(table(curve.fields()))]
        tables += [line for costs in self.costs for line in (*costs.markdown(), "")]
        return [*tables, *(f"- {line}" for line in self.lines), ""]

    def _rows(self) -> list[tuple[str, ...]]:
        return [HEAD, *(cells(fields(result)) for result in self.results)] if self.results else []


@dataclass(frozen=True)
class Report:
    """All blocks of one run, in the order in which they were measured."""

    blocks: list[Block]

    def json(self) -> str:
        """One object; times are in microseconds for one operation."""
        rows = [row for block in self.blocks for row in block.rows()]
        curves = [curve.fields() for block in self.blocks for curve in block.curves]
        costs = [costs.fields() for block in self.blocks for costs in block.costs]
        document = {"machine": self._machine(), "rows": rows}
        document |= {"curves": curves} if curves else {}
        document |= {"capacity": costs[0]} if costs else {}
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


Row = dict[str, Any]


def fields(result: Result) -> Row:
    """What a program is told of a case; times are in microseconds for one operation."""
    target = result.case.target
    return {
        "case": result.case.name,
        "subject": result.case.subject,
        "reference": result.case.reference,
        "ratio": round(result.ratio, 6),
        "min": round(result.least, 6),
        "max": round(result.greatest, 6),
        "target": target and target.number,
        "target_type": target and target.kind,
        "met": result.met,
        "rounds": len(result.rounds),
        "subject_us": round(result.subject_cost * 1e6, 2),
        "reference_us": round(result.reference_cost * 1e6, 2),
        **waits.fields(result),
    }


def target_of(row: Mapping[str, Any]) -> Target | None:
    """The target of a row, if it has one."""
    return None if row["target"] is None else Target(row["target_type"], row["target"])


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A row for people: what stands below `HEAD`."""
    target = target_of(row)
    return (
        row["case"],
        row["subject"],
        row["reference"],
        _median(row),
        f"{figure(row['min'], target)} to {figure(row['max'], target)}",
        NONE if target is None else str(target),
        verdict(row),
        f"{row['subject_us']:,.1f}",
        f"{row['reference_us']:,.1f}",
    )


def _median(row: Mapping[str, Any]) -> str:
    """The ratio; of a row that was published more than once also the worst of its medians."""
    target = target_of(row)
    told = figure(row["ratio"], target)
    runs = row.get("runs", 1)
    return f"{told} ({runs} runs, worst {figure(row['worst'], target)})" if runs > 1 else told


def within_noise(row: Mapping[str, Any]) -> bool:
    """Whether some rounds reach the target and others do not."""
    target = target_of(row)
    return target is not None and target.met(row["min"]) != target.met(row["max"])


def verdict(row: Mapping[str, Any]) -> str:
    """What the target says of the median, and whether the rounds agree."""
    told = {True: "met", False: "missed", None: NONE}[row["met"]]
    return f"{told}, within noise" if within_noise(row) else told


def figure(ratio: float, target: Target | None) -> str:
    """A ratio, with a digit more than its target needs, so that rounding does not hide a miss."""
    return f"{ratio:.2f}" if (target.number if target else ratio) >= 2 else f"{ratio:.3f}"


def ruled(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The lines of a table for the documentation, and an empty one; none without rows."""
    if not rows:
        return []
    lines = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    head, *others = (f"| {' | '.join(line)} |" for line in lines)
    return [head, f"| {' | '.join('---' for _ in rows[0])} |", *others, ""]


def _padded(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The lines of a table for a terminal, and an empty one; none without rows."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [*(_aligned(row, widths, "  ").rstrip() for row in rows), *([""] if rows else [])]


def _aligned(row: Sequence[str], widths: Sequence[int], gap: str) -> str:
    return gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
