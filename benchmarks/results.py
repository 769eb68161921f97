"""What was measured, as ``docs/benchmarks/results.json`` keeps it; the page is made from it alone.

Each row says when and on what it was measured, so that a run of a few cases replaces their rows and
no others. Needs the standard library alone.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.harness import Result, Sample, Target, total
from benchmarks.reasons import TURNED

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"
RESULTS = "results.json"

Row = dict[str, Any]


class Document(TypedDict):
    """What ``results.json`` holds, and what ``--json`` prints of one run.

    ``capacity`` has the costs of units, or None. ``missing`` names what was never measured, or
    failed when it was measured last.
    """

    rows: list[Row]
    curves: list[Row]
    capacity: Row | None
    missing: list[str]


def empty() -> Document:
    """Nothing was measured."""
    return Document(rows=[], curves=[], capacity=None, missing=[])


def stored(folder: Path = FOLDER) -> Document:
    """What was published before."""
    path = folder / RESULTS
    if not path.exists():
        return empty()
    found: Document = json.loads(path.read_text(encoding="utf-8"))
    return found


def printed(document: Document) -> str:
    """The document as JSON."""
    return json.dumps(document, indent=1, ensure_ascii=False)


def write(path: Path, text: str) -> None:
    """Replace a file in one step: who reads it meanwhile sees the old one."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def row_of(result: Result, measured: Mapping[str, Any]) -> Row:
    """A case; times are in microseconds for one operation; ``measured``: on what it was."""
    target = result.case.target
    return {
        "case": result.case.name,
        "subject": result.case.subject,
        "reference": result.case.reference,
        "ratio": round(result.ratio, 6),
        "min": round(min(result.ratios), 6),
        "max": round(max(result.ratios), 6),
        "target": target and target.number,
        "target_type": target and target.kind,
        "met": result.met,
        "rounds": len(result.rounds),
        **_costs("subject", [one.subject for one in result.rounds]),
        **_costs("reference", [one.reference for one in result.rounds]),
        "measured": dict(measured),
    }


def _costs(side: str, rounds: Sequence[Sample]) -> dict[str, float]:
    """The middle round; how many a second there were, and how long single ones took, if known."""
    cost = {f"{side}_us": round(statistics.median(one.cost for one in rounds) * 1e6, 2)}
    sample = total(rounds)
    if len(sample.waits) < 2:
        return cost
    points = statistics.quantiles(sample.waits, n=100, method="inclusive")
    return cost | {
        f"{side}_per_second": round(sample.operations / sample.seconds, 1),
        f"{side}_p50_us": round(points[49] * 1e6, 1),
        f"{side}_p99_us": round(points[98] * 1e6, 1),
    }


def target_of(row: Mapping[str, Any]) -> Target | None:
    """The target of a row, if it has one."""
    return None if row["target"] is None else Target(row["target_type"], row["target"])


def merged(
    before: Document, new: Document, themes: Mapping[str, str], growths: Sequence[str]
) -> Document:
    """What was published before, with what is new in its place; what is no more is left out.

    ``themes`` of all cases and ``growths`` are in the order of the page.
    """
    failed = set(new["missing"])
    rows = {row["case"]: row for row in before["rows"] if row["case"] not in failed}
    rows |= {row["case"]: row | _history(rows.get(row["case"]), row) for row in new["rows"]}
    every = (*before["curves"], *new["curves"])
    curves = {curve["name"]: curve for curve in every if curve["name"] not in failed}
    return Document(
        rows=[{"theme": themes[name]} | rows[name] for name in themes if name in rows],
        curves=[curves[name] for name in growths if name in curves],
        capacity=new["capacity"] or before["capacity"],
        missing=[name for name in (*themes, *growths) if name not in rows | curves],
    )


def _history(before: Row | None, row: Row) -> Row:
    """How often a row was published, and the worst of its medians.

    Who measures again until a figure is good cannot hide the others. Rows that compare something
    else, or costs instead of rates, have nothing in common.
    """
    if before is None or _meaning(before) != _meaning(row):
        return {"runs": 1, "worst": row["ratio"]}
    worst = max if row["target_type"] == "at most" or row["case"] in TURNED else min
    ratios = (before.get("worst", before["ratio"]), row["ratio"])
    return {"runs": before.get("runs", 1) + 1, "worst": worst(ratios)}


def _meaning(row: Row) -> tuple[str, bool]:
    return row["reference"], row["target_type"] == "at most"
