"""What the benchmarks make of given numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import pytest

from benchmarks.harness import (
    WARM_UPS,
    Case,
    Effort,
    Pair,
    Result,
    Round,
    Sample,
    Side,
    Target,
    WrongSum,
    expect,
    loop,
    measure,
)
from benchmarks.report import Block, Report
from benchmarks.run import all_groups

AT_LEAST = Target("at least", 2)
AT_MOST = Target("at most", 0.5)
FAST, SLOW = Sample(100, 1.0), Sample(100, 3.0)


def case(target: Target | None, prepare: Callable[[], Iterator[Pair]], slices: int = 2) -> Case:
    return Case("fake", "this", "that", target, contextmanager(prepare), slices)


def nothing() -> Iterator[Pair]:
    yield from ()


def result(target: Target | None, *seconds: float) -> Result:
    """A result whose reference took so many seconds in each round, the subject always one."""
    rounds = tuple(Round(Sample(10, 1.0), Sample(10, each)) for each in seconds)
    return Result(case(target, nothing), rounds)


def silent(text: str) -> None:
    """No progress is shown."""


def test_a_ratio_of_rates_and_a_ratio_of_costs() -> None:
    assert AT_LEAST.ratio(FAST, SLOW) == pytest.approx(3)
    assert AT_MOST.ratio(FAST, SLOW) == pytest.approx(1 / 3)


def test_ratios_are_per_operation() -> None:
    assert AT_LEAST.ratio(Sample(1000, 2.0), Sample(10, 1.0)) == pytest.approx(50)


def test_median_min_and_max_are_of_the_rounds() -> None:
    found = result(AT_LEAST, 9.0, 1.5, 4.0, 2.5, 3.0)
    assert found.ratios == pytest.approx([9.0, 1.5, 4.0, 2.5, 3.0])
    assert (found.ratio, found.least, found.greatest) == pytest.approx((3.0, 1.5, 9.0))
    assert found.subject_cost == pytest.approx(0.1)
    assert found.reference_cost == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("kind", "ratio", "met"),
    [
        ("at least", 2.01, True),
        ("at least", 2.0, True),
        ("at least", 1.99, False),
        ("at most", 1.99, True),
        ("at most", 2.0, True),
        ("at most", 2.01, False),
    ],
)
def test_met(kind: Literal["at least", "at most"], ratio: float, met: bool) -> None:
    assert Target(kind, 2).met(ratio) is met


def test_the_median_decides_not_the_best_round() -> None:
    assert not result(AT_LEAST, 1.0, 1.0, 1.9, 9.0, 9.0).met
    assert result(AT_MOST, 1.0, 1.0, 2.1, 9.0, 9.0).met


def counting(slices: list[str], stored: int = 0) -> Callable[[], Iterator[Pair]]:
    """Sides that note who ran, and a database that always holds ``stored`` too many."""

    def side(name: str, operations: int) -> Side:
        def run() -> Sample:
            slices.append(name)
            return Sample(operations, 1.0)

        return run

    def prepare() -> Iterator[Pair]:
        def verify(subject: int, reference: int) -> None:
            expect("subject", 2 * slices.count("A") + stored, subject)
            expect("reference", slices.count("B"), reference)

        yield Pair(side("A", 2), side("B", 1), verify)

    return prepare


def test_both_sides_take_turns_and_the_order_alternates() -> None:
    slices: list[str] = []
    found = measure(case(AT_LEAST, counting(slices), slices=4), Effort(rounds=5), silent)
    assert "".join(slices) == "ABBA" * (WARM_UPS // 2) + "ABBAABBA" * 5
    assert len(found.rounds) == 5
    assert found.ratio == pytest.approx(2)


def test_with_one_slice_a_round_the_order_alternates_between_rounds() -> None:
    slices: list[str] = []
    measure(case(AT_LEAST, counting(slices), slices=1), Effort(rounds=5), silent)
    assert "".join(slices) == "ABBA" + "AB" + "BA" + "AB" + "BA" + "AB"


def test_less_effort_means_fewer_slices() -> None:
    assert Effort(share=0.1).slices(case(AT_LEAST, nothing, slices=2)) == 1
    assert Effort(share=0.5).slices(case(AT_LEAST, nothing, slices=8)) == 4


def test_less_effort_means_one_slice_to_warm_up() -> None:
    slices: list[str] = []
    measure(case(AT_LEAST, counting(slices), slices=1), Effort(rounds=5, share=0.3), silent)
    assert "".join(slices) == "AB" + "BA" + "AB" + "BA" + "AB" + "BA"


def test_less_effort_means_less_in_a_slice_where_a_case_says_how() -> None:
    slices: list[str] = []
    short = replace(case(AT_LEAST, counting(slices)), less=contextmanager(counting([])))
    measure(short, Effort(rounds=5, share=0.3), silent)
    assert slices == []
    measure(short, Effort(rounds=5), silent)
    assert slices


def test_a_wrong_sum_fails() -> None:
    with pytest.raises(WrongSum, match="subject: the database has 25, counted were 24"):
        measure(case(AT_LEAST, counting([], stored=1)), Effort(rounds=5), silent)


def test_fewer_than_five_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="4 rounds are too few"):
        measure(case(AT_LEAST, nothing), Effort(rounds=4), silent)


def test_a_loop_counts_its_operations() -> None:
    calls: list[int] = []
    assert loop(lambda: calls.append(1), 3, operations=500)().operations == 1500
    assert len(calls) == 3


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for group in all_groups() for case in group.cases]
    assert len(set(names)) == len(names)


def test_both_groups_have_cases_and_those_that_wait_are_apart() -> None:
    fast, durable = all_groups()
    assert (fast.durable, durable.durable) == (False, True)
    assert {case.name for case in fast.cases} >= {"statement", "writers"}
    assert {case.name for case in durable.cases} >= {"hot", "sharded", "rollup", "append", "fold"}


def test_a_case_without_a_target_is_a_ratio_of_rates_and_neither_met_nor_missed() -> None:
    found = result(None, 1.0, 1.5, 1.9, 2.5, 3.0)
    assert found.ratio == pytest.approx(1.9)
    assert found.met is None
    report = Report([Block({}, [], [found])])
    (row,) = json.loads(report.json())["rows"]
    assert (row["ratio"], row["target"], row["target_type"], row["met"]) == (1.9, None, None, None)
    assert "| 1.900 | 1.000 to 3.00 | – | – |" in report.markdown()  # noqa: RUF001


def test_each_row_says_what_a_commit_waited_for() -> None:
    fast, durable = (
        Block({"cores": 2, "fsync": fsync}, [f"fsync={fsync}"], [result(AT_LEAST, 2.0)])
        for fsync in ("off", "on")
    )
    document = json.loads(Report([fast, durable]).json())
    assert document["machine"] == {"cores": 2, "fsync": "off; on"}
    assert [row["fsync"] for row in document["rows"]] == ["off", "on"]
    assert json.loads(Report([durable]).json())["machine"]["fsync"] == "on"
    for text in (Report([fast, durable]).text(), Report([fast, durable]).markdown()):
        assert text.count("case") == 2
        assert text.index("fsync=off") < text.index("fsync=on")


def test_a_miss_is_shown_in_every_form() -> None:
    rows = [result(AT_LEAST, 1.0, 1.5, 1.9, 2.5, 3.0)]
    report = Report([Block({"cores": 2}, ["two cores"], rows)])
    document = json.loads(report.json())
    assert document["machine"] == {"cores": 2}
    (row,) = document["rows"]
    assert {"case", "reference", "ratio", "min", "max", "target", "met"} <= set(row)
    assert (row["ratio"], row["min"], row["max"], row["met"]) == (1.9, 1.0, 3.0, False)
    assert "| 1.90 | 1.00 to 3.00 | ≥ 2 | missed, within noise |" in report.markdown()
    assert "missed" in report.text()
