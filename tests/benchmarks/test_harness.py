"""What the benchmarks make of given numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.harness import (
    Case,
    Effort,
    Pair,
    Result,
    Round,
    Sample,
    Side,
    Target,
    Work,
    WrongSum,
    expect,
    measure,
)

AT_LEAST, AT_MOST = Target("at least", 2), Target("at most", 0.5)
FAST, SLOW = Sample(100, 1.0), Sample(100, 3.0)
ONE = Effort(rounds=5)


class Counted:
    """Sides that note who ran, and a database that holds ``stored`` too many."""

    def __init__(self, stored: int = 0) -> None:
        self.ran = ""
        self._stored = stored

    def case(self, target: Target | None = AT_LEAST, slices: int = 2) -> Case:
        return Case("fake", "this", "that", target, Work(contextmanager(self._pair), slices))

    def _side(self, name: str, operations: int) -> Side:
        def run() -> Sample:
            self.ran += name
            return Sample(operations, 1.0)

        return run

    def _pair(self) -> Iterator[Pair]:
        def verify(subject: int, reference: int) -> None:
            expect("subject", 2 * self.ran.count("A") + self._stored, subject)
            expect("reference", self.ran.count("B"), reference)

        yield Pair(self._side("A", 2), self._side("B", 1), verify)


def result(target: Target | None, *seconds: float) -> Result:
    """A result whose reference took so many seconds in each round, the subject always one."""
    rounds = tuple(Round(Sample(10, 1.0), Sample(10, each)) for each in seconds)
    return Result(Counted().case(target), rounds)


def test_the_median_of_the_rounds_decides() -> None:
    found = result(AT_LEAST, 9.0, 1.5, 4.0, 2.5, 3.0)
    assert (found.ratio, min(found.ratios), max(found.ratios)) == pytest.approx((3.0, 1.5, 9.0))
    assert (found.met, result(AT_MOST, 1.0, 1.0, 2.0, 9.0, 9.0).met) == (True, True)
    assert result(AT_LEAST, 1.0, 1.0, 1.9, 9.0, 9.0).met is False
    assert result(AT_MOST, 1.0, 1.0, 1.9, 1.9, 1.9).met is False
    shown = result(None, 1.0, 1.5, 1.9, 2.5, 3.0)
    assert shown.ratio == pytest.approx(1.9)
    assert shown.met is None


@pytest.mark.parametrize(
    ("slices", "ran"), [(4, "ABBA" + "ABBAABBA" * 5), (1, "ABBA" + "ABBAABBAAB")]
)
def test_both_sides_take_turns_and_who_is_first_changes(slices: int, ran: str) -> None:
    counted = Counted()
    found = measure(counted.case(slices=slices), ONE)
    assert counted.ran == ran
    assert len(found.rounds) == 5
    assert found.ratio == pytest.approx(2)


def test_a_wrong_sum_fails() -> None:
    with pytest.raises(WrongSum, match="subject: the database has 25, counted were 24"):
        measure(Counted(stored=1).case(), ONE)
