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
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

MIN_ROUNDS = 5
WARM_UPS = 2  # slices of each side that are thrown away; one where time is short
SECONDS = 0.5  # of one slice, where it lasts as long as it is told
BRIEF = 0.2  # the same where time is short


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


Action = Callable[[], object]
Side = Callable[[], Sample]
Stored = Callable[[], int]
Verify = Callable[[int, int], None]


@dataclass(frozen=True)
class Pair:
    """The way that is judged and the one it is compared with; each call runs one slice.

    ``verify``: called at the end with the number of operations that each did, warm-up included;
    raises `WrongSum` where the database tells another number.
    """

    subject: Side
    reference: Side
    verify: Verify


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


at_least = partial(Target, "at least")
at_most = partial(Target, "at most")
RATES = at_least(0)


@dataclass(frozen=True)
class Work:
    """How a row is measured: each side runs so many slices in a round.

    ``prepare`` makes what both sides need, and removes it. If time is short, ``brief`` does the
    same in shorter slices, and ``less`` with smaller amounts, for which the target was not set.
    """

    prepare: Callable[[], AbstractContextManager[Pair]]
    slices: int = 10
    less: Callable[[], AbstractContextManager[Pair]] | None = None
    brief: Callable[[], AbstractContextManager[Pair]] | None = None


def lasting(prepare: Callable[[float], AbstractContextManager[Pair]]) -> Work:
    """Work whose slices last so many seconds."""
    return Work(partial(prepare, SECONDS), slices=2, brief=partial(prepare, BRIEF))


@dataclass(frozen=True)
class Case:
    """One row of the table: its name, its sides in words, and how it is measured.

    ``target``: what the ratio should reach; None for one that is only shown, a ratio of rates.
    """

    name: str
    subject: str
    reference: str
    target: Target | None
    work: Work


class Round(NamedTuple):
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
    def met(self) -> bool | None:
        """Whether the median reaches the target; None where there is none."""
        return None if self.case.target is None else self.case.target.met(self.ratio)


@dataclass(frozen=True)
class Effort:
    """How much to measure: ``share`` of the slices of each case, in so many rounds."""

    rounds: int = 7
    share: float = 1.0


def measure(case: Case, effort: Effort) -> Result:
    """Run one case and verify its sums; `WrongSum` where the database holds others."""
    turns = itertools.count()
    work, short = case.work, effort.share < 1
    if short and work.less:
        case = replace(case, target=None)
    prepare = (work.less or work.brief or work.prepare) if short else work.prepare
    slices = max(1, round(work.slices * effort.share))
    with prepare() as pair:
        sides = pair.subject, pair.reference
        rounds = [
            Round(*in_turn(sides, number, turns))
            for number in (1 if short else WARM_UPS, *(slices,) * effort.rounds)
        ]
        pair.verify(*(total(of_side).operations for of_side in zip(*rounds, strict=True)))
    return Result(case, tuple(rounds[1:]))


def in_turn(sides: Sequence[Side], slices: int, turns: Iterator[int]) -> list[Sample]:
    """What each side did in so many slices; who goes first changes from one turn to the next."""
    samples: list[list[Sample]] = [[] for _ in sides]
    pairs = list(zip(samples, sides, strict=True))
    for number in itertools.islice(turns, slices):
        for so_far, side in pairs if number % 2 == 0 else reversed(pairs):
            so_far.append(side())
    return [total(so_far) for so_far in samples]


def total(samples: Sequence[Sample]) -> Sample:
    """Several samples as one."""
    return Sample(
        sum(one.operations for one in samples),
        sum(one.seconds for one in samples),
        tuple(itertools.chain.from_iterable(one.waits for one in samples)),
    )


def loop(action: Action, times: int, operations: int = 1) -> Side:
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


def loops(mine: Action, theirs: Action, verify: Verify, times: int = 100) -> Pair:
    """Both sides call their action so many times in a slice."""
    return Pair(loop(mine, times), loop(theirs, times), verify)


def adds_up(mine: Stored, theirs: Stored) -> Verify:
    """What verifies that each has as much more as was counted since now."""
    before = mine(), theirs()

    def verify(subject: int, reference: int) -> None:
        expect("the subject", mine() - before[0], subject)
        expect("the reference", theirs() - before[1], reference)

    return verify


def remain(*known: tuple[Stored, int]) -> Verify:
    """What verifies that each has this value, however often it was read."""

    def verify(*_: int) -> None:
        for stored, value in known:
            expect("what is read", stored(), value)

    return verify
