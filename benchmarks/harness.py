"""Compares two ways of doing the same, fairly on a machine whose speed changes.

Both ways run in the same rounds. A round is a row of short slices, subject and reference in turn,
and who goes first changes from one pair of slices to the next, also over the end of a round. Each
round gives one ratio; what is reported is their median, with the least and the greatest. Needs the
standard library alone.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

MIN_ROUNDS = 5
WARM_UPS = 2


class WrongSum(Exception):
    """What was counted is not what is stored: the figures of such a run mean nothing."""


@dataclass(frozen=True)
class Sample:
    """So many operations took so long.

    ``waits``: how long each of them took, in seconds, where they overlap and it was measured.
    """

    operations: int
    seconds: float
    waits: tuple[float, ...] = ()

    @property
    def cost(self) -> float:
        """Seconds for one operation."""
        return self.seconds / self.operations


Side = Callable[[], Sample]


@dataclass(frozen=True)
class Pair:
    """Two ways of doing the same; each call runs one slice.

    Attributes:
        subject: the way that is judged.
        reference: the way it is compared with.
        verify: called at the end with the number of operations that each did, warm-up included;
            raises `WrongSum` where the database tells another number.
    """

    subject: Side
    reference: Side
    verify: Callable[[int, int], None]


@dataclass(frozen=True)
class Target:
    """What a ratio should reach.

    "at least" is for a ratio of rates (twice as fast is 2), "at most" for a ratio of costs (twice
    as fast is 0.5).
    """

    kind: Literal["at least", "at most"]
    number: float

    def ratio(self, subject: Sample, reference: Sample) -> float:
        """How the subject stands to the reference, in the sense of this target."""
        if self.kind == "at least":
            return reference.cost / subject.cost
        return subject.cost / reference.cost

    def met(self, ratio: float) -> bool:
        """Whether a ratio is good enough."""
        return ratio >= self.number if self.kind == "at least" else ratio <= self.number

    def __str__(self) -> str:
        return f"{'≥' if self.kind == 'at least' else '≤'} {self.number:g}"


def at_least(number: float) -> Target:
    """A target for a ratio of rates."""
    return Target("at least", number)


def at_most(number: float) -> Target:
    """A target for a ratio of costs."""
    return Target("at most", number)


RATES = at_least(0)


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        name: what ``--case`` calls it.
        subject: what is judged, in words.
        reference: what it is compared with, in words.
        target: what the ratio should reach; None for one that is only shown, a ratio of rates.
        prepare: makes what both sides need, and removes it.
        slices: how often each side runs in a round.
        less: the same as ``prepare`` with less to do in a slice, for where time is short.
    """

    name: str
    subject: str
    reference: str
    target: Target | None
    prepare: Callable[[], AbstractContextManager[Pair]]
    slices: int = 10
    less: Callable[[], AbstractContextManager[Pair]] | None = None


@dataclass(frozen=True)
class Round:
    """What both sides did in one round."""

    subject: Sample
    reference: Sample


@dataclass(frozen=True)
class Result:
    """The rounds of one case, and what follows from them."""

    case: Case
    rounds: tuple[Round, ...]

    @property
    def ratios(self) -> list[float]:
        """One ratio per round."""
        compare = self.case.target or RATES
        return [compare.ratio(one.subject, one.reference) for one in self.rounds]

    @property
    def ratio(self) -> float:
        """The median, which is what the target is about."""
        return statistics.median(self.ratios)

    @property
    def least(self) -> float:
        """The smallest ratio of a round."""
        return min(self.ratios)

    @property
    def greatest(self) -> float:
        """The greatest ratio of a round."""
        return max(self.ratios)

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the target; None where there is none."""
        return None if self.case.target is None else self.case.target.met(self.ratio)

    @property
    def subject_cost(self) -> float:
        """Seconds for one operation of the subject, in the middle round."""
        return statistics.median(one.subject.cost for one in self.rounds)

    @property
    def reference_cost(self) -> float:
        """Seconds for one operation of the reference, in the middle round."""
        return statistics.median(one.reference.cost for one in self.rounds)


@dataclass(frozen=True)
class Effort:
    """How much to measure: ``share`` of the slices of each case, in so many rounds."""

    rounds: int = 7
    share: float = 1.0

    @property
    def warm_ups(self) -> int:
        """Slices of each side that are thrown away."""
        return WARM_UPS if self.share >= 1 else 1

    def slices(self, case: Case) -> int:
        """Slices of each side in a round."""
        return max(1, round(case.slices * self.share))

    def pair(self, case: Case) -> AbstractContextManager[Pair]:
        """Both sides of a case, with as much to do in a slice as there is time for."""
        return case.less() if case.less and self.share < 1 else case.prepare()


def measure(case: Case, effort: Effort, progress: Callable[[str], None]) -> Result:
    """Run one case and verify its sums.

    Raises:
        WrongSum: the database does not hold what was counted.
        ValueError: there are too few rounds to speak of a median.
    """
    if effort.rounds < MIN_ROUNDS:
        raise ValueError(f"{effort.rounds} rounds are too few, {MIN_ROUNDS} are needed")
    turns = itertools.count()
    with effort.pair(case) as pair:
        progress(f"{case.name}: warm-up")
        rounds = [_round(pair, effort.warm_ups, turns)]
        for number in range(effort.rounds):
            progress(f"{case.name}: round {number + 1} of {effort.rounds}")
            rounds.append(_round(pair, effort.slices(case), turns))
        subject = total([one.subject for one in rounds])
        reference = total([one.reference for one in rounds])
        pair.verify(subject.operations, reference.operations)
    return Result(case, tuple(rounds[1:]))


def _round(pair: Pair, slices: int, turns: Iterator[int]) -> Round:
    subject: list[Sample] = []
    reference: list[Sample] = []
    sides = [(subject, pair.subject), (reference, pair.reference)]
    for number in itertools.islice(turns, slices):
        for samples, side in sides if number % 2 == 0 else reversed(sides):
            samples.append(side())
    return Round(total(subject), total(reference))


def total(samples: Sequence[Sample]) -> Sample:
    """Several samples as one."""
    return Sample(
        sum(one.operations for one in samples),
        sum(one.seconds for one in samples),
        tuple(itertools.chain.from_iterable(one.waits for one in samples)),
    )


def loop(action: Callable[[], object], times: int, operations: int = 1) -> Side:
    """A side that calls ``action`` so many times; each call counts as ``operations``."""

    def side() -> Sample:
        started = time.perf_counter()
        for _ in range(times):
            action()
        return Sample(times * operations, time.perf_counter() - started)

    return side


def expect(what: str, stored: int, counted: int) -> None:
    """Raise `WrongSum` unless both numbers are the same."""
    if stored != counted:
        raise WrongSum(f"{what}: the database has {stored}, counted were {counted}")
