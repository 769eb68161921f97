"""The page of the documentation that shows what was measured: missed rows first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from benchmarks import machine
from benchmarks.harness import Target
from benchmarks.reasons import REASONS, TURNED, UNKNOWN
from benchmarks.results import Document, target_of

INTRODUCTION = """# Benchmarks

Each row compares two ways, in turn, in the same run. Where they do not promise the same, the row
says what differs. Compare ratios, not times: times depend on the machine. What the figures mean for
you is in [performance](../explanation/performance.md), what a unit costs in
[scaling](../explanation/scaling.md).

- The **subject** is what is judged, as a rule the library. The **reference** is what it is compared
  with.
- A **ratio** is the median of the rounds. With ≥ or no target it compares rates (2 is twice as
  fast), with ≤ costs.
- A **target** was set before it was measured. Some were set for another machine and reset on
  2026-11-22. A row without a target is only shown. **Within noise** means that some rounds reach
  it and others do not.
- **First in 2 ms**: the transaction counts, then stays open for 2 ms. **Last in 2 ms**: it stays
  open for 2 ms, and counts at its end. Tail, fold and seal are in the
  [glossary](../reference/glossary.md).
- **Load** is that of the machine in the minute before a run: how many processes ran or waited.
  Above the number of cores, others took time from what was measured.

`python3 -m benchmarks` measures on your machine. `--publish` writes this page, from
[`results.json`](results.json). A miss stays on the page until a run says otherwise.
"""
FASTER = (
    "The faster side may be another way, a bare command, or the library without something: the "
    "words of both say what it does not do."
)
RATIOS = ("case", "subject", "reference", "ratio", "min to max", "target", "met")
COSTS = ("subject, µs", "reference, µs")
WAITS = ("a second", "p50, ms", "p99, ms")
NONE = "–"  # noqa: RUF001

Row = Mapping[str, Any]


def text(document: Document) -> str:
    """The page."""
    runs = _Runs(document)
    parts = [
        INTRODUCTION.splitlines(),
        ["", *runs.lines()],
        _missed(document["rows"], document["missing"], runs),
        _faster(document["rows"], runs),
        _themes(document["rows"], runs),
        _growth(document["curves"], runs),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def terminal(document: Document) -> str:
    """What one run has measured, for a terminal."""
    lines = ruled([(*RATIOS, *COSTS), *((*ratios(row), *costs(row)) for row in document["rows"])])
    for curve in document["curves"]:
        lines += [f"{curve['title']}: {curve['y']}", "", *ruled(figures(curve))]
    return "\n".join(lines)


def ruled(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, and an empty one; none where there is only a head."""
    if len(rows) < 2:
        return []
    lines = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    head, *others = (f"| {' | '.join(line)} |" for line in lines)
    return [head, f"| {' | '.join('---' for _ in rows[0])} |", *others, ""]


def ratios(row: Row) -> tuple[str, ...]:
    """A row for people: what stands below `RATIOS`."""
    target = target_of(row)
    return (
        *(row["case"], row["subject"], row["reference"], _median(row)),
        f"{ratio(row['min'], target)} to {ratio(row['max'], target)}",
        NONE if target is None else str(target),
        verdict(row),
    )


def _median(row: Row) -> str:
    """The ratio; of a row that was published more than once also the worst of its medians."""
    target = target_of(row)
    told, runs = ratio(row["ratio"], target), row.get("runs", 1)
    return f"{told} ({runs} runs, worst {ratio(row['worst'], target)})" if runs > 1 else told


def costs(row: Row) -> tuple[str, ...]:
    """What one operation took on both sides."""
    return f"{row['subject_us']:,.1f}", f"{row['reference_us']:,.1f}"


def within_noise(row: Row) -> bool:
    """Whether some rounds reach the target and others do not."""
    target = target_of(row)
    return target is not None and target.met(row["min"]) != target.met(row["max"])


def verdict(row: Row) -> str:
    """What the target says of the median, and whether the rounds agree."""
    told = {True: "met", False: "**missed**", None: NONE}[row["met"]]
    return f"{told}, within noise" if within_noise(row) else told


def ratio(number: float, target: Target | None) -> str:
    """A ratio, with a digit more than its target needs, so that rounding does not hide a miss."""
    return f"{number:.2f}" if (target.number if target else number) >= 2 else f"{number:.3f}"


def figure(number: float) -> str:
    """A number with about three digits that count; whole ones in full."""
    if number == round(number) or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) >= 1 else f"{number:.3g}"


class _Runs:
    """The runs that the rows come from, numbered as they appear."""

    def __init__(self, document: Document) -> None:
        self._all: list[dict[str, Any]] = []
        for one in (*document["rows"], *document["curves"]):
            if one["measured"] not in self._all:
                self._all.append(one["measured"])

    def number(self, one: Row) -> str:
        """The run of a row."""
        return str(self._all.index(one["measured"]) + 1)

    def lines(self) -> list[str]:
        """A section that says when and on what each was measured."""
        lines = ["## Machine", "", "Each row says in which of these runs it was measured.", ""]
        for number, measured in enumerate(self._all, 1):
            first, *others = machine.lines(measured)
            lines += [f"{number}. {first}", *(f"   - {line}" for line in others)]
        return [*lines, ""]


def _missed(rows: Sequence[Row], missing: Sequence[str], runs: _Runs) -> list[str]:
    judged = [row for row in rows if row["met"] is not None]
    missed = [row for row in judged if not row["met"]]
    told = f"{len(missed)} of {len(judged)} measured rows with a target miss it."
    head = ("case", "ratio", "target", "missed by", "why", "run")
    table = ruled([head, *((*_miss(row), runs.number(row)) for row in missed)])
    names = ", ".join(f"`{name}`" for name in missing)
    # What a run of a few cases has left out is no target that is met.
    left = (
        [f"Not measured yet, or failed when it was measured last: {names}.", ""] if missing else []
    )
    return ["## Missed targets", "", told, "", *table, *left]


def _miss(row: Row) -> tuple[str, ...]:
    target = target_of(row)
    assert target is not None  # only such rows can miss
    by = f"{abs(row['ratio'] - target.number) / target.number:.1%}"
    by += ", within noise" if within_noise(row) else ""
    told, why = ratio(row["ratio"], target), REASONS.get(row["case"], UNKNOWN)
    return f"`{row['case']}`", f"**{told}**", str(target), by, why


def _faster(rows: Sequence[Row], runs: _Runs) -> list[str]:
    """Rows without a target miss none, so what is slower in them would be seen by nobody."""
    shown = [_other(row) for row in rows if row["met"] is None]
    found = [row for row in shown if row["ratio"] > 1]
    told = f"{len(found)} of {len(shown)} measured rows without a target. {FASTER}"
    head = ("case", "faster", "slower", "times as fast", "min to max", "run")
    table = ruled([head, *((*_gap(row), runs.number(row)) for row in found)])
    return ["## Where others are faster", "", told, "", *table]


def _other(row: Row) -> Row:
    """The same row seen from the other side: its ratio says how fast that one is."""
    if row["case"] in TURNED:
        return row
    turned = {"subject": row["reference"], "reference": row["subject"]}
    found = {"ratio": row["ratio"], "min": row["max"], "max": row["min"]}
    return {**row, **turned, **{name: 1 / number for name, number in found.items()}}


def _gap(row: Row) -> tuple[str, ...]:
    median, least, greatest = (ratio(row[name], None) for name in ("ratio", "min", "max"))
    return f"`{row['case']}`", row["subject"], row["reference"], median, f"{least} to {greatest}"


def _themes(rows: Sequence[Row], runs: _Runs) -> list[str]:
    lines: list[str] = []
    for theme, found in groupby(rows, lambda row: str(row["theme"])):
        themed = list(found)
        table = [(*RATIOS, "run"), *((*ratios(row), runs.number(row)) for row in themed)]
        lines += [f"## {theme}", "", *ruled(table), *_absolute(themed)]
    return lines


def _absolute(rows: Sequence[Row]) -> list[str]:
    table = [("case", *COSTS), *((row["case"], *costs(row)) for row in rows)]
    head = ("case", *(f"{side}, {name}" for side in ("subject", "reference") for name in WAITS))
    waited = [_waits(row) for row in rows if "subject_p50_us" in row]
    return _folded("Absolute figures, for one operation", [*ruled(table), *ruled([head, *waited])])


def _waits(row: Row) -> list[str]:
    cells = [row["case"]]
    for side in ("subject", "reference"):
        cells.append(f"{row[f'{side}_per_second']:,.0f}")
        cells += [f"{row[f'{side}_{name}_us'] / 1e3:.1f}" for name in ("p50", "p99")]
    return cells


def _growth(curves: Sequence[Row], runs: _Runs) -> list[str]:
    lines = ["## How cost grows", ""] if curves else []
    for curve in curves:
        lines += [f"### {curve['title']}", "", f"![{words(curve)}]({curve['name']}.svg)", ""]
        lines += [curve["note"], ""]
        summary = f"The figures: {curve['y']} (run {runs.number(curve)})"
        lines += _folded(summary, ruled(figures(curve)))
    return lines


def words(curve: Row) -> str:
    """A plot, for those who do not see it."""
    labels = ", ".join(line["label"] for line in curve["lines"])
    return f"{curve['title']}: {curve['y']} over {curve['x']}, for {labels}"


def figures(curve: Row) -> list[tuple[str, ...]]:
    """The figures of a curve: the head, then a row for each size."""
    found = [{point["x"]: point for point in line["points"]} for line in curve["lines"]]
    head = (curve["x"], *(label(line) for line in curve["lines"]))
    sizes = sorted({size for line in found for size in line})
    return [head, *((figure(x), *(_point(line.get(x)) for line in found)) for x in sizes)]


def label(line: Row) -> str:
    """What a line is called."""
    return f"{line['label']} (reference)" if line["reference"] else str(line["label"])


def _point(point: Row | None) -> str:
    if point is None:
        return NONE
    median, least, greatest = (figure(point[name]) for name in ("median", "least", "greatest"))
    return median if least == greatest else f"{median} ({least} to {greatest})"


def _folded(summary: str, lines: Sequence[str]) -> list[str]:
    """What is there for those who want it."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "</details>", ""]
