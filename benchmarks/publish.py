"""What was measured becomes a page of the documentation: ``results.json``, then all that follows.

The page and its plots are made from ``results.json`` alone. Each row there says when and on what it
was measured, so that a run of a few cases replaces their rows and no others.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from benchmarks import page, plots
from benchmarks.catalogue import Theme
from benchmarks.report import Block, Report, Row, fields, target_of

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"
RESULTS = "results.json"
PAGE = "index.md"


class Document(TypedDict):
    """What ``results.json`` holds.

    ``capacity`` has the costs of units: their table and their fields; None before they were
    measured. ``missing`` names what was never measured.
    """

    rows: list[Row]
    curves: list[dict[str, Any]]
    capacity: dict[str, Any] | None
    missing: list[str]


def publish(
    report: Report, themes: Sequence[Theme], growths: Sequence[str], folder: Path
) -> Document:
    """Put what was measured into a folder, in place of what the same cases brought before.

    Rows of cases and plots of growths that are no more are left out.

    Args:
        report: what was measured.
        themes: all cases that there are, in the order of the page.
        growths: the names of all growths, in the order of the page.
    """
    document = merged(stored(folder), report, themes, growths)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / RESULTS, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    render(folder)
    return document


def stored(folder: Path) -> Document:
    """What was published before."""
    path = folder / RESULTS
    if not path.exists():
        return Document(rows=[], curves=[], capacity=None, missing=[])
    found: Document = json.loads(path.read_text(encoding="utf-8"))
    return found


def render(folder: Path) -> None:
    """Write the page and its plots again from ``results.json``; remove plots that are no more."""
    files = rendered(stored(folder))
    for path in folder.glob("*.svg"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        _write(folder / name, text)


def rendered(document: Document) -> dict[str, str]:
    """The files of the page by name."""
    return {PAGE: page.text(document), **plots.files(document["rows"], document["curves"])}


def merged(
    before: Document, report: Report, themes: Sequence[Theme], growths: Sequence[str]
) -> Document:
    """What was published before, with what is new in its place."""
    rows = {row["case"]: row for row in before["rows"]}
    curves = {curve["name"]: curve for curve in before["curves"]}
    capacity = before["capacity"]
    for block in report.blocks:
        for one in block.results:
            row = fields(one)
            rows[one.case.name] = row | _history(rows.get(one.case.name), row) | _measured(block)
        curves |= {one.growth.name: one.fields() | _measured(block) for one in block.curves}
        for costs in block.costs:
            told = {"table": costs.markdown(), "fields": costs.fields()}
            capacity = told | _measured(block)
    return Document(
        rows=_by_theme(rows, themes),
        curves=[curves[name] for name in growths if name in curves],
        capacity=capacity,
        missing=[name for name in _names(themes, growths) if name not in rows | curves],
    )


def _history(before: Row | None, row: Row) -> dict[str, Any]:
    """How often a row was published, and the worst of its medians.

    Who measures again until a figure is good cannot hide the others. Where a ratio became one of
    costs instead of rates, or the other way round, earlier medians say nothing.
    """
    if before is None or _compares_costs(before) != _compares_costs(row):
        return {"runs": 1, "worst": row["ratio"]}
    worst = max if _compares_costs(row) else min
    ratios = (before.get("worst", before["ratio"]), row["ratio"])
    return {"runs": before.get("runs", 1) + 1, "worst": worst(ratios)}


def _compares_costs(row: Row) -> bool:
    target = target_of(row)
    return target is not None and target.kind == "at most"


def _names(themes: Sequence[Theme], growths: Sequence[str]) -> list[str]:
    cases = [case.name for theme in themes for case in (*theme.fast, *theme.durable)]
    return [*cases, *growths]


def _by_theme(rows: Mapping[str, Row], themes: Sequence[Theme]) -> list[Row]:
    return [
        {"theme": theme.title} | rows[case.name]
        for theme in themes
        for case in (*theme.fast, *theme.durable)
        if case.name in rows
    ]


def _measured(block: Block) -> dict[str, Any]:
    return {"measured": block.machine}


def _write(path: Path, text: str) -> None:
    """All of it or nothing: who reads the file meanwhile sees the old one."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        file.write(text)
    Path(file.name).chmod(0o644)  # temporary files are for their owner alone
    os.replace(file.name, path)
