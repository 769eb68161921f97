"""What is published is what was measured: all pages come from ``results.json``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from benchmarks import page, readme, reasons, results, run, scaling
from benchmarks.catalogue import DURABLE, FAST, groups, titles
from benchmarks.harness import Case, Result, Round, Sample, Target, Work
from benchmarks.results import FOLDER, Document, Row, empty, merged, row_of, stored

TARGET = Target("at least", 2)
MEASURED = stored()["rows"][0]["measured"]
PREPARED: Any = nullcontext  # nothing is measured here


def row(name: str, ratio: float, target: Target | None = TARGET) -> Row:
    """A case whose reference took so many times as long, and once a tenth longer."""

    case = Case(name, "this", "that", target, Work(PREPARED))
    times = (ratio * 1.1, *(ratio,) * 4)
    rounds = tuple(Round(Sample(10, 1.0), Sample(10, each)) for each in times)
    return row_of(Result(case, rounds), MEASURED)


def published(*rounds: Sequence[Row]) -> Document:
    """What several runs leave."""
    document = empty()
    for rows in rounds:
        document = merged(document, {**empty(), "rows": list(rows)}, {"met": "First"}, ())
    return document


@pytest.mark.parametrize(
    ("target", "ratios", "kept"),
    [
        (TARGET, (2.5, 2.2, 4.0), (3, 2.2)),
        (Target("at most", 0.5), (4.0, 2.0, 5.0), (3, 0.5)),
    ],
)
def test_a_row_that_is_measured_until_it_is_good_keeps_its_worst_median(
    target: Target, ratios: Sequence[float], kept: tuple[int, float]
) -> None:
    (found,) = published(*([row("met", ratio, target)] for ratio in ratios))["rows"]
    assert (found["runs"], found["worst"]) == kept
    assert f"({kept[0]} runs, worst" in "".join(page.ratios(found))


def test_all_pages_are_what_the_results_say() -> None:
    """``python3 -m benchmarks --render`` writes them again."""
    document = stored()
    assert (FOLDER / "index.md").read_text(encoding="utf-8") == page.text(document)
    text = readme.README.read_text(encoding="utf-8")
    assert readme.rendered(document, text) == text
    told = scaling.PAGE.read_text(encoding="utf-8")
    assert scaling.rendered(document["capacity"] or {}, told) == told
    assert {path.stem for path in FOLDER.glob("*.svg")} == {
        curve["name"] for curve in document["curves"]
    }


def test_stored_rows_are_of_cases_that_are_there_and_have_their_targets() -> None:
    cases = {case.name: case for group in groups() for case in group.cases}
    assert sorted(cases) == sorted({*FAST, *DURABLE})
    document = stored()
    assert [one["case"] for one in document["rows"]] == [
        name for name in titles() if name not in document["missing"]
    ]
    for one in document["rows"]:
        case = cases[one["case"]]
        assert (one["subject"], one["reference"]) == (case.subject, case.reference)
        assert results.target_of(one) == case.target
    targets = {name for name, case in cases.items() if case.target}
    assert set(reasons.REASONS) <= targets
    assert cases.keys() - targets >= reasons.TURNED
    assert set(readme.MARKED.findall(readme.README.read_text(encoding="utf-8"))) < set(cases)


def test_a_quick_run_is_of_rows_with_a_target_unless_it_names_some() -> None:
    judged = [case.name for group in groups() for case in group.cases if case.target]
    for asked, expected in ((["--quick"], judged), (["--quick", "--case", "naive"], ["naive"])):
        chosen = run._chosen(groups(), run._options(asked))
        assert [name for group in chosen for name in group.names()] == expected
    assert len(judged) < len(titles())


def test_how_many_counters_change_is_a_sum_over_all_of_them() -> None:
    load = scaling.Sparse(peak=1000, counters=100_000, minute=60)
    whole = sum(1 / rank for rank in range(1, 100_001))
    each = (1 - math.exp(-60_000 / (rank * whole)) for rank in range(1, 100_001))
    assert load.changed == pytest.approx(sum(each), rel=1e-4)


def test_buffers_of_many_processes_send_more_sums_than_that_of_one() -> None:
    load = scaling.Sparse(peak=1000, counters=100_000, processes=4)
    whole = sum(1 / rank for rank in range(1, 100_001))
    each = (1 - math.exp(-250 / (rank * whole)) for rank in range(1, 100_001))
    assert load.merged == pytest.approx(4 * sum(each), rel=1e-3)
    assert load._replace(processes=1).merged < load.merged < load.peak
