"""What is written into the documentation, and that it is what was measured."""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import curves, page, plots, publish, readme, reasons, run
from benchmarks.catalogue import CAPACITY, Group
from benchmarks.catalogue import everything as everything_there_is
from benchmarks.curves import Curve, Line
from benchmarks.harness import Case, Effort, Pair, Sample, WrongSum
from benchmarks.progress import Progress
from benchmarks.publish import FOLDER, PAGE, RESULTS, rendered, stored
from benchmarks.report import Block, Report
from benchmarks.session import Session
from tests.benchmarks.invented import (
    CASES,
    SHOWN,
    TARGET,
    THEMES,
    block,
    curve,
    everything,
    growth,
    machine,
    published,
    result,
    section,
    text_of,
)

NOISY = "**missed, within noise**"


def test_each_row_says_when_and_on_what_it_was_measured(tmp_path: Path) -> None:
    published(everything(), tmp_path)
    document = json.loads(text_of(tmp_path / RESULTS))
    assert set(document) == {"rows", "curves", "capacity", "missing"}
    assert [row["case"] for row in document["rows"]] == ["met", "update", "odd", "shown"]
    assert [row["theme"] for row in document["rows"]] == ["First", "First", "Second", "Second"]
    for row in document["rows"]:
        assert set(row) >= SHOWN
        assert row["measured"] == machine().fields()
        assert {"date", "python", "postgresql", "redis", "fsync"} <= set(row["measured"])
    assert document["curves"][0]["measured"] == machine().fields()
    assert document["capacity"]["fields"] == {"wal_bytes": 123.5}


def test_missed_rows_come_first_with_by_how_much_and_why(tmp_path: Path) -> None:
    missed = section(published(everything(), tmp_path), "Missed targets")
    assert "2 of 3 measured rows with a target miss it.\n" in missed
    assert re.search(
        r"`update` \| \*\*1\.90\*\* \| ≥ 2 \| 5\.0%, within noise \| .*decisions/0011", missed
    )
    # A cost of 1 / 1.9 beside the target of 0.5.
    assert f"| `odd` | **0.526** | ≤ 0.5 | 5.3%, within noise | {reasons.UNKNOWN} | 1 |" in missed
    assert "`met`" not in missed
    assert "`shown`" not in missed


def test_a_missed_row_is_shown_as_missed_in_its_table(tmp_path: Path) -> None:
    text = published(everything(), tmp_path)
    first, second = section(text, "First"), section(text, "Second")
    assert "| met | this | that | 3.00 | 3.00 to 3.30 | ≥ 2 | met | 1 |" in first
    assert f"| update | increment | update | 1.90 | 1.90 to 2.09 | ≥ 2 | {NOISY} | 1 |" in first
    assert "| odd | a\\|b | that & <more> |" in second
    assert text.index("## Missed") < text.index("## First") < text.index("## Second")


def test_a_page_without_a_miss_says_so(tmp_path: Path) -> None:
    text = published(Report([block("met", "shown")]), tmp_path, ())
    found = section(text, "Missed targets")
    told = "0 of 1 measured rows with a target miss it; 2 cases and plots were not measured.\n"
    assert told in found
    assert "Not measured yet: `update`, `odd`." in found
    assert "|" not in found


def test_ratios_stand_before_absolute_figures_and_waits_are_there(tmp_path: Path) -> None:
    found = block("met")
    found.results[0] = result(CASES[0], 2.5, (0.01, 0.02, 0.03))
    first = section(published(Report([found]), tmp_path), "First")
    assert first.index("| 2.50 |") < first.index("| met | 100,000.0 | 250,000.0 |")
    assert "| met | 10 | 20.0 | 30.0 | 4 | 20.0 | 30.0 |" in first


def test_a_run_of_some_cases_replaces_their_rows_and_no_others(tmp_path: Path) -> None:
    published(everything(), tmp_path)
    before = stored(tmp_path)
    text = published(Report([block("update", day=2)]), tmp_path)
    after = stored(tmp_path)
    assert [row["case"] for row in after["rows"]] == [row["case"] for row in before["rows"]]
    changed = [
        new["case"] for old, new in zip(before["rows"], after["rows"], strict=True) if old != new
    ]
    assert changed == ["update"]
    assert after["rows"][1]["measured"]["date"] == "2026-01-02"
    assert (after["curves"], after["capacity"]) == (before["curves"], before["capacity"])
    assert "1. 2026-01-01" in text
    assert "2. 2026-01-02" in text
    assert "| met | this | that | 3.00 | 3.00 to 3.30 | ≥ 2 | met | 1 |" in text
    assert f"| 1.90 (2 runs, worst 1.90) | 1.90 to 2.09 | ≥ 2 | {NOISY} | 2 |" in text


def test_what_is_no_more_is_left_out_with_its_plot(tmp_path: Path) -> None:
    published(everything(), tmp_path)
    assert (tmp_path / "tail.svg").exists()
    publish.publish(Report([]), THEMES[:1], (), tmp_path)
    after = stored(tmp_path)
    assert [row["case"] for row in after["rows"]] == ["met", "update"]
    assert after["curves"] == []
    assert not (tmp_path / "tail.svg").exists()


def test_the_same_results_give_the_same_files(tmp_path: Path) -> None:
    published(everything(), tmp_path)
    document = stored(tmp_path)
    assert rendered(document) == rendered(json.loads(json.dumps(document)))
    for name, text in rendered(document).items():
        assert text_of(tmp_path / name) == text, name
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [RESULTS, *rendered(document)]
    )


def test_rendering_again_needs_no_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published(everything(), tmp_path)
    (tmp_path / PAGE).write_text("spoiled", encoding="utf-8")
    monkeypatch.setattr(publish, "FOLDER", tmp_path)
    followed: list[bool] = []
    monkeypatch.setattr(run, "_follow", lambda: followed.append(True))
    monkeypatch.setattr(run, "_set_up", lambda: pytest.fail("no server is needed"))
    assert run.main(["--render"]) == 0
    assert text_of(tmp_path / PAGE) == before
    assert followed == [True]


def test_a_plot_holds_its_title_and_each_label_as_text() -> None:
    drawn = plots.growth(curve().fields())
    root = ElementTree.fromstring(drawn)
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    wanted = {"Reads & tails", "entries", "µs a read", "ledger <tail>", "one row (reference)"}
    assert wanted <= set(texts)
    assert "stroke-dasharray" in drawn
    assert "<dc:date>" not in drawn


def test_the_overview_holds_each_row_with_a_target_and_no_other() -> None:
    rows = publish.merged(stored(Path("nowhere")), everything(), THEMES, ())["rows"]
    root = ElementTree.fromstring(plots.overview(rows))
    texts = {one.text for one in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"met", "update", "odd", "missed", "target"} <= texts
    assert "shown" not in texts


@pytest.mark.parametrize("logarithmic", [True, False])
def test_plots_stay_small_with_many_sizes(logarithmic: bool) -> None:
    fields = curve(sizes=tuple(range(0, 3601, 100)), logarithmic=logarithmic).fields()
    assert len(plots.growth(fields)) < 60_000


def test_the_figures_of_a_plot_are_on_the_page(tmp_path: Path) -> None:
    text = published(everything(), tmp_path)
    assert f"![{plots.curve_words(curve().fields())}](tail.svg)" in text
    assert "Roll up." in text
    assert "| 10 | 30 (29 to 32) | 10 |" in text
    assert "| WAL | 123.5 |" in text


def test_lines_that_lack_a_size_leave_it_open() -> None:
    mine, theirs = curve().lines
    shorter = Curve(growth(), (mine, Line("one row", theirs.points[:1])))
    assert curves.table(shorter.fields())[-1] == ("10", "30 (29 to 32)", "")
    assert "| 10 | 30 (29 to 32) | – |" in "\n".join(page._figures(shorter.fields()))  # noqa: RUF001


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (0.01234, "0.0123"), (3.14159, "3.14"), (4096, "4,096"), (1234.6, "1,235")],
)
def test_figures_of_plots(number: float, shown: str) -> None:
    assert curves.figure(number) == shown


def test_a_quick_run_says_that_it_is_rough() -> None:
    report = Report([block("met")])
    assert run.ROUGH in run._rendered(report, options("--quick"))
    assert run.ROUGH in run._rendered(report, options("--quick", "--markdown"))
    assert run.ROUGH not in run._rendered(report, options())
    json.loads(run._rendered(report, options("--quick", "--json")))


def test_what_is_rough_is_not_published(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(["--quick", "--publish"])
    assert "too rough" in capsys.readouterr().err


def test_where_no_page_can_be_made_all_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published(everything(), tmp_path)

    def broken(document: object) -> str:
        raise OSError("the disk is full")

    monkeypatch.setattr(page, "text", broken)
    with pytest.raises(OSError, match="full"):
        publish.render(tmp_path)
    assert text_of(tmp_path / PAGE) == before


def test_reasons_lead_to_decisions() -> None:
    for reason in reasons.REASONS.values():
        assert (FOLDER / reasons.DECISIONS / f"{reason.decision}.md").resolve().exists()


def test_reasons_are_about_cases_that_have_a_target() -> None:
    targets = {case.name for group in run.all_groups() for case in group.cases if case.target}
    assert set(reasons.REASONS) <= targets


def test_what_can_be_asked_for_has_a_name_of_its_own() -> None:
    names = [name for group in everything_there_is() for name in group.names()]
    assert len(set(names)) == len(names)
    assert {CAPACITY, "hot", "clients"} <= set(names)


def test_names_choose_among_cases_growths_and_capacity() -> None:
    one, two = run.all_groups()
    assert (one.durable, two.durable) == (False, True)
    assert one.only(["update", "tail100"]).names() == ["update"]
    assert two.only(["update", "tail100"]).names() == ["tail100"]
    assert Group(True, (), (growth(),), capacity=True).names() == ["tail", CAPACITY]


def test_where_there_is_no_terminal_each_case_is_a_line() -> None:
    stream = io.StringIO()
    with Progress(2, stream) as progress:
        progress("update: round 1 of 5")
        progress.done("update: 2.1")
        progress.done("many: failed")
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r"00:00 1 of 2, \d+\.\d s, update: 2\.1", first)
    assert re.fullmatch(r"00:00 2 of 2, \d+\.\d s, many: failed", second)


def broken() -> AbstractContextManager[Pair]:
    raise RuntimeError("the case is broken")


@contextmanager
def wrong() -> Iterator[Pair]:
    def verify(mine: int, theirs: int) -> None:
        raise WrongSum("the database has 1, counted were 2")

    yield Pair(lambda: Sample(1, 1.0), lambda: Sample(1, 2.0), verify)


@contextmanager
def fine() -> Iterator[Pair]:
    yield Pair(lambda: Sample(1, 1.0), lambda: Sample(1, 2.0), lambda mine, theirs: None)


def prepared(name: str, prepare: Callable[[], AbstractContextManager[Pair]]) -> Case:
    return Case(name, "this", "that", TARGET, prepare)


@pytest.mark.postgres
def test_after_a_failure_the_next_case_is_measured(tables: None) -> None:
    cases = [prepared("broken", broken), prepared("wrong", wrong), prepared("fine", fine)]
    lost = growth("lost")  # measuring it raises
    session = Session(Effort(rounds=5), Progress(4, io.StringIO()))
    empty = Block({}, [])
    session._fill(empty, Group(True, cases, [lost]))
    assert [one.case.name for one in empty.results] == ["fine"]
    assert empty.curves == []
    first, second, third = session.failures
    assert first.startswith("broken: Traceback")
    assert first.endswith("RuntimeError: the case is broken")
    assert second == "wrong: the database has 1, counted were 2"
    assert third.startswith("lost: ")


@pytest.fixture
def aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What ``run`` publishes goes there."""

    def publish_aside(report: Report) -> None:
        publish.publish(report, THEMES, (), tmp_path)

    monkeypatch.setattr(run, "_publish", publish_aside)
    return tmp_path


def options(*argv: str) -> argparse.Namespace:
    return run._options(argv)


def test_what_failed_is_said_and_the_others_are_published(
    aside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(session: Session, groups: object) -> None:
        session.report.blocks.append(block("met"))
        session.failures.append("update: the case is broken")

    monkeypatch.setattr(Session, "run", measured)
    assert run._measure([], options("--publish")) == 1
    assert "error: update: the case is broken" in capsys.readouterr().err
    assert [row["case"] for row in stored(aside)["rows"]] == ["met"]


def test_what_was_measured_before_it_was_broken_off_is_published(
    aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(session: Session, groups: object) -> None:
        session.report.blocks.append(block("met"))
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "run", measured)
    with pytest.raises(KeyboardInterrupt):
        run._measure([], options("--publish"))
    assert [row["case"] for row in stored(aside)["rows"]] == ["met"]


def test_without_publish_nothing_is_written(aside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(session: Session, groups: object) -> None:
        session.report.blocks.append(block("met"))

    monkeypatch.setattr(Session, "run", measured)
    assert run._measure([], options()) == 0
    assert list(aside.iterdir()) == []


def test_the_page_is_what_its_results_say() -> None:
    """``python3 -m benchmarks --render`` writes it again."""
    files = rendered(stored(FOLDER))
    assert text_of(FOLDER / PAGE) == files[PAGE]
    assert {path.name for path in FOLDER.glob("*.svg")} == set(files) - {PAGE}
    for name in set(files) - {PAGE}:
        assert len((FOLDER / name).read_bytes()) < 60_000, name


def test_the_readme_has_the_figures_of_the_page() -> None:
    text = text_of(readme.README)
    assert text.count("<!-- ratios:begin -->") == 1
    assert readme.rendered(stored(FOLDER)["rows"], text) == text
