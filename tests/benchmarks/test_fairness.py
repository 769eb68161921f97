"""What is published says where others are faster, where rounds disagree, and what came before."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection

from benchmarks import publish, reasons, run
from benchmarks.catalogue import Group, Theme
from benchmarks.harness import Case, Effort, Pair, Sample, Target
from benchmarks.progress import Progress
from benchmarks.publish import PAGE, RESULTS, stored
from benchmarks.report import NONE, Block, Report, fields, verdict
from benchmarks.session import Session
from tests.benchmarks.invented import (
    CASES,
    TARGET,
    block,
    everything,
    nothing,
    published,
    result,
    section,
    text_of,
)


def again(folder: Path, target: Target | None, *slownesses: float) -> tuple[int, float, str]:
    """One row that is published so often: runs, worst, and its cell on the page."""
    case = Case("met", "this", "that", target, nothing)
    for day, slowness in enumerate(slownesses, 1):
        found = block(day=day)
        found.results.append(result(case, slowness))
        text = published(Report([found]), folder, ())
    (row,) = stored(folder)["rows"]
    return row["runs"], row["worst"], section(text, "First").split("|")[-6].strip()


@pytest.mark.parametrize("target", [TARGET, None])
def test_a_row_that_is_measured_until_it_is_good_keeps_its_worst_median(
    tmp_path: Path, target: Target | None
) -> None:
    assert again(tmp_path, target, 2.5)[:2] == (1, 2.5)
    assert again(tmp_path, target, 2.2, 4.0)[:2] == (3, 2.2)
    assert again(tmp_path, target, 3.0)[:2] == (4, 2.2)
    assert "| 3.00 (4 runs, worst 2.20) |" in text_of(tmp_path / PAGE)


def test_the_worst_of_costs_is_the_greatest(tmp_path: Path) -> None:
    target = Target("at most", 0.5)
    assert again(tmp_path, target, 4.0, 2.0, 5.0)[:2] == (3, 0.5)
    assert "| 0.200 (3 runs, worst 0.500) |" in text_of(tmp_path / PAGE)


def test_costs_and_rates_have_no_common_history(tmp_path: Path) -> None:
    again(tmp_path, Target("at most", 0.5), 4.0, 2.0)
    assert again(tmp_path, TARGET, 3.0)[:2] == (1, 3.0)
    assert "runs, worst" not in text_of(tmp_path / PAGE)


def test_a_row_from_before_runs_were_kept_counts_as_one(tmp_path: Path) -> None:
    again(tmp_path, TARGET, 2.5)
    document = stored(tmp_path)
    for row in document["rows"]:
        del row["runs"], row["worst"]
    (tmp_path / RESULTS).write_text(json.dumps(document), encoding="utf-8")
    assert again(tmp_path, TARGET, 3.0)[:2] == (2, 2.5)


def test_the_verdict_says_where_rounds_disagree() -> None:
    rows = [fields(result(CASES[0], slowness)) for slowness in (3.0, 1.9, 1.8, 2.0)]
    assert [verdict(row) for row in rows] == ["met", "missed, within noise", "missed", "met"]
    noisy = {**rows[0], "min": 1.99}
    assert verdict(noisy) == "met, within noise"
    assert verdict(fields(result(CASES[3], 0.5))) == NONE


def faster(folder: Path, *cases: tuple[str, float]) -> str:
    """The section about other ways, for rows without a target."""
    found = block()
    shown = [Case(name, f"our {name}", f"their {name}", None, nothing) for name, _ in cases]
    found.results.extend(result(case, how) for case, (_, how) in zip(shown, cases, strict=True))
    publish.publish(Report([found]), [Theme("All", shown)], (), folder)
    return section(text_of(folder / PAGE), "Where others are faster")


def test_rows_without_a_target_that_are_slower_are_not_hidden(tmp_path: Path) -> None:
    found = faster(tmp_path, ("slow", 0.5), ("quick", 2.0), ("even", 1.0))
    assert "1 of 3 measured rows without a target." in found
    # Once a tenth better than the median of 0.5.
    assert "| `slow` | their slow | our slow | 2.00 | 1.818 to 2.00 | 1 |" in found
    assert "quick" not in found
    assert "even" not in found


def test_where_the_subject_is_the_other_way_the_row_is_turned(tmp_path: Path) -> None:
    found = faster(tmp_path, ("fixed16", 4.0), ("naive", 0.5))
    assert "| `fixed16` | our fixed16 | their fixed16 | 4.00 | 4.00 to 4.40 | 1 |" in found
    assert "naive" not in found


def test_where_no_other_is_faster_the_page_says_so(tmp_path: Path) -> None:
    text = published(everything(), tmp_path)
    found = section(text, "Where others are faster")
    assert found.strip() == "None of the 1 measured rows without a target."
    assert text.index("## Missed") < text.index("## Where others") < text.index("## First")


def test_cases_that_are_turned_exist_and_have_no_target() -> None:
    shown = {case.name for group in run.all_groups() for case in group.cases if not case.target}
    assert shown >= reasons.TURNED


@pytest.mark.parametrize(("load", "warned"), [("2.1", True), ("2.0", False)])
def test_publishing_on_a_busy_machine_warns_and_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    load: str,
    warned: bool,
) -> None:
    def measured(session: Session, groups: object) -> None:
        found = block("met")
        found.machine["load"] = load
        session.begun(found)
        session.report.blocks.append(found)

    monkeypatch.setattr(Session, "run", measured)
    monkeypatch.setattr(run, "_publish", lambda report: published(report, tmp_path))
    assert run._measure([], run._options(["--publish"])) == 0
    assert (f"warning: the load is {load} on 2 cores" in capsys.readouterr().err) is warned
    assert [row["case"] for row in stored(tmp_path)["rows"]] == ["met"]
    assert run._measure([], run._options([])) == 0
    assert "warning" not in capsys.readouterr().err


@contextmanager
def _idle() -> Iterator[Pair]:
    yield Pair(lambda: Sample(1, 1.0), lambda: Sample(1, 2.0), lambda mine, theirs: None)


def idle(name: str) -> Case:
    """A case that does nothing, and verifies nothing."""
    return Case(name, "this", "that", None, _idle)


@pytest.fixture
def pointed_back(transactional_db: None) -> Iterator[None]:
    """A session points the connection elsewhere, and leaves it at the database of the URL."""
    before = dict(connection.settings_dict)
    yield
    connection.close()
    connection.settings_dict.update(before)


@pytest.mark.postgres
def test_the_load_is_told_before_anything_is_measured_and_once(pointed_back: None) -> None:
    seen: list[tuple[Block, int]] = []
    session = Session(Effort(rounds=5), Progress(2, io.StringIO()))
    session.begun = lambda found: seen.append((found, len(session.report.blocks)))
    session.run([Group(False, [idle("one")]), Group(True, [idle("two")])])
    ((first, blocks),) = seen
    assert session.failures == []
    assert first is session.report.blocks[0]
    assert blocks == 0
    assert float(first.machine["load"]) >= 0
