"""The page of the documentation that shows what was measured: missed rows first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from benchmarks import plots, waits
from benchmarks.curves import table
from benchmarks.machine import Machine
from benchmarks.reasons import TURNED, reason_of
from benchmarks.report import (
    HEAD,
    NONE,
    NOTE,
    cells,
    figure,
    ruled,
    target_of,
    verdict,
    within_noise,
)

if TYPE_CHECKING:
    from benchmarks.publish import Document

INTRODUCTION = """# Benchmarks

Each row compares two ways, in turn, in the same run. Where they do not promise the same, the row
says what differs. Compare ratios, not times: times depend on the machine. What the figures mean for
you is in [performance](../explanation/performance.md).

- The **subject** is what is judged, as a rule the library. The **reference** is what it is compared
  with.
- A **target** was set before it was measured, by the issue of the feature. A row without one is
  only shown. **Within noise** means that some rounds reach it and others do not.
- **First in 2 ms**: the transaction counts, then stays open for 2 ms. **Last in 2 ms**: it stays
  open for 2 ms, and counts at its end. Tail, fold and seal are in the
  [glossary](../reference/glossary.md).
- **Load** is that of the machine in the minute before a run: how many processes ran or waited.
  Above the number of cores, others took time from what was measured.

`python3 -m benchmarks` measures on your machine. `--publish` writes this page, from
[`results.json`](results.json). A miss stays on the page until a run says otherwise.
"""
FIGURES = HEAD.index("subject, µs")  # the columns before it are about ratios
SIDES = ("subject", "reference")
FASTER = (
    "The faster side may be another way, a bare command, or the library without something: the "
    "words of both say what it does not do."
)


def text(document: Document) -> str:
    """The page."""
    runs = _Runs(document)
    parts = [
        INTRODUCTION.splitlines(),
        ["", *runs.lines()],
        _missed(document["rows"], document["missing"], runs),
        _unmeasured(document["missing"]),
        _faster(document["rows"], runs),
        _overview(document["rows"]),
        _themes(document["rows"], runs),
        _growth(document["curves"], runs),
        _capacity(document["capacity"], runs),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


class _Runs:
    """The runs that the rows come from, numbered as they appear."""

    def __init__(self, document: Document) -> None:
        capacity = document["capacity"]
        everything = [*document["rows"], *document["curves"], *([capacity] if capacity else [])]
        self._all: list[dict[str, Any]] = []
        for one in everything:
            if one["measured"] not in self._all:
                self._all.append(one["measured"])

    def number(self, one: Mapping[str, Any]) -> str:
        """The run of a row."""
        return str(self._all.index(one["measured"]) + 1)

    def lines(self) -> list[str]:
        """A section that says when and on what each was measured."""
        if not self._all:
            return ["Nothing was measured yet.", ""]
        lines = ["## Machine", "", "Each row says in which of these runs it was measured.", ""]
        for number, measured in enumerate(self._all, 1):
            first, *others = _machine(measured).lines()
            lines += [f"{number}. {first}", *(f"   - {line}" for line in others)]
        return [*lines, ""]


def _machine(measured: Mapping[str, Any]) -> Machine:
    return Machine(**{name: measured[name] for name in Machine.__dataclass_fields__})


def _missed(rows: Sequence[Mapping[str, Any]], missing: Sequence[str], runs: _Runs) -> list[str]:
    judged = [row for row in rows if row["met"] is not None]
    missed = [row for row in judged if not row["met"]]
    if not judged:
        return []
    told = f"{len(missed)} of {len(judged)} measured rows with a target miss it"
    left = f"; {len(missing)} cases and plots were not measured" if missing else ""
    lines = ["## Missed targets", "", f"{told}{left}.", ""]
    head = ("case", "ratio", "target", "missed by", "why", "run")
    table = [(*_miss(row), runs.number(row)) for row in missed]
    return [*lines, *(ruled([head, *table]) if missed else [])]


def _unmeasured(names: Sequence[str]) -> list[str]:
    """What a run of a few cases has left out is no target that is met."""
    told = ", ".join(f"`{name}`" for name in names)
    return [f"Not measured yet: {told}.", ""] if names else []


def _miss(row: Mapping[str, Any]) -> tuple[str, ...]:
    target = target_of(row)
    assert target is not None  # only such rows can miss
    share = abs(row["ratio"] - target.number) / target.number
    by = f"{share:.1%}" if share >= 0.001 else "less than 0.1%"
    by += ", within noise" if within_noise(row) else ""
    name, ratio = row["case"], figure(row["ratio"], target)
    return (f"`{name}`", f"**{ratio}**", str(target), by, reason_of(name))


def _faster(rows: Sequence[Mapping[str, Any]], runs: _Runs) -> list[str]:
    """Rows without a target miss none, so what is slower in them would be seen by nobody."""
    shown = [_other(row) for row in rows if row["met"] is None]
    if not shown:
        return []
    found = [row for row in shown if row["ratio"] > 1]
    lines = ["## Where others are faster", ""]
    if not found:
        return [*lines, f"None of the {len(shown)} measured rows without a target.", ""]
    told = f"{len(found)} of {len(shown)} measured rows without a target. {FASTER}"
    head = ("case", "faster", "slower", "times as fast", "min to max", "run")
    return [*lines, told, "", *ruled([head, *((*_gap(row), runs.number(row)) for row in found)])]


def _other(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same row seen from the other side: its ratio says how fast that one is."""
    if row["case"] in TURNED:
        return row
    turned = {"subject": row["reference"], "reference": row["subject"]}
    ratios = {"ratio": row["ratio"], "min": row["max"], "max": row["min"]}
    return {**row, **turned, **{name: 1 / ratio for name, ratio in ratios.items()}}


def _gap(row: Mapping[str, Any]) -> tuple[str, ...]:
    median, least, greatest = (figure(row[name], None) for name in ("ratio", "min", "max"))
    name, faster, slower = row["case"], row["subject"], row["reference"]
    return (f"`{name}`", faster, slower, median, f"{least} to {greatest}")


def _overview(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not plots.judged(rows):
        return []
    lines = ["## All targets", "", f"![{plots.overview_words(rows)}]({plots.OVERVIEW}.svg)", ""]
    return [*lines, "The figures are in the tables below.", ""]


def _themes(rows: Sequence[Mapping[str, Any]], runs: _Runs) -> list[str]:
    lines: list[str] = []
    for theme, found in groupby(rows, lambda row: str(row["theme"])):
        themed = list(found)
        lines += [f"## {theme}", "", *_ratios(themed, runs), *_absolute(themed)]
    return [*lines, *([NOTE, ""] if rows else [])]


def _ratios(rows: Sequence[Mapping[str, Any]], runs: _Runs) -> list[str]:
    table = [(*_shown(row)[:FIGURES], runs.number(row)) for row in rows]
    return ruled([(*HEAD[:FIGURES], "run"), *table])


def _shown(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What is missed has to be seen at a glance."""
    told = verdict(row)
    bold = f"**{told}**" if row["met"] is False else told
    return tuple(
        bold if name == "met" else cell for name, cell in zip(HEAD, cells(row), strict=True)
    )


def _absolute(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    head = ("case", *HEAD[FIGURES:])
    costs = [head, *((row["case"], *cells(row)[FIGURES:]) for row in rows)]
    waited = [row for row in rows if "subject_p50_us" in row]
    found = ruled([waits.HEAD, *map(_waits, waited)]) if waited else []
    return _folded("Absolute figures, for one operation", [*ruled(costs), *found])


def _waits(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["case"], *(cell for side in SIDES for cell in _waits_of(row, side)))


def _waits_of(row: Mapping[str, Any], side: str) -> tuple[str, str, str]:
    half, most = (f"{row[f'{side}_{name}_us'] / 1e3:.1f}" for name in ("p50", "p99"))
    return f"{row[f'{side}_per_second']:,.0f}", half, most


def _growth(curves: Sequence[Mapping[str, Any]], runs: _Runs) -> list[str]:
    lines = ["## How cost grows", ""] if curves else []
    for curve in curves:
        shown = f"![{plots.curve_words(curve)}]({curve['name']}.svg)"
        lines += [f"### {curve['title']}", "", shown, ""]
        lines += [curve["note"], ""] if curve["note"] else []
        lines += _folded(f"The figures: {curve['y']} (run {runs.number(curve)})", _figures(curve))
    return lines


def _figures(curve: Mapping[str, Any]) -> list[str]:
    head, *others = table(curve)
    return ruled([head, *(tuple(cell or NONE for cell in row) for row in others)])


def _capacity(capacity: Mapping[str, Any] | None, runs: _Runs) -> list[str]:
    if capacity is None:
        return []
    measured = f"Measured in run {runs.number(capacity)}."
    return ["## What a unit costs", "", measured, "", *capacity["table"], ""]


def _folded(summary: str, lines: Sequence[str]) -> list[str]:
    """What is there for those who want it."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "</details>", ""]
