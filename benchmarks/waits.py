"""How long single requests took, and how many a second brought: a table of its own."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.harness import Result, Sample, total

HEAD = (
    "case",
    "subject, a second",
    "p50, ms",
    "p99, ms",
    "reference, a second",
    "p50, ms",
    "p99, ms",
)


class Waits(NamedTuple):
    """One side of a case: requests in a second, and seconds until half and 99 of 100 were done."""

    rate: float
    half: float
    most: float


def waits_of(sample: Sample) -> Waits | None:
    """Those of a sample; None where they were not measured."""
    if len(sample.waits) < 2:
        return None
    points = statistics.quantiles(sample.waits, n=100, method="inclusive")
    return Waits(sample.operations / sample.seconds, points[49], points[98])


def sides(result: Result) -> tuple[Waits, Waits] | None:
    """Both sides, over all rounds."""
    subject = waits_of(total([one.subject for one in result.rounds]))
    reference = waits_of(total([one.reference for one in result.rounds]))
    return (subject, reference) if subject and reference else None


def fields(result: Result) -> dict[str, float]:
    """What a program is told of them."""
    found = sides(result)
    if found is None:
        return {}
    return {
        f"{name}_{what}": figure
        for name, side in zip(("subject", "reference"), found, strict=True)
        for what, figure in (
            ("per_second", round(side.rate, 1)),
            ("p50_us", round(side.half * 1e6, 1)),
            ("p99_us", round(side.most * 1e6, 1)),
        )
    }


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The head and a row for each case that has them; nothing where none has."""
    table: list[tuple[str, ...]] = [HEAD]
    for result in results:
        found = sides(result)
        if found is not None:
            table.append((result.case.name, *_cells(found[0]), *_cells(found[1])))
    return table if len(table) > 1 else []


def _cells(side: Waits) -> tuple[str, str, str]:
    return f"{side.rate:,.0f}", f"{side.half * 1e3:.1f}", f"{side.most * 1e3:.1f}"
