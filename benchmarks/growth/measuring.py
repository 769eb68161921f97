"""Measures several ways of doing the same at one size after the other.

At each size all ways take turns within a round, and who goes first changes from turn to turn.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from django.db.models import Model

from benchmarks import database
from benchmarks.cases.cached import location
from benchmarks.curves import Line, Point, Progress
from benchmarks.harness import MIN_ROUNDS, Effort, Pair, Sample, Side, total
from benchmarks.inspection import execute
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterShard,
    CounterSource,
    SlottedCounter,
)

# Where one round takes more than twenty seconds.
FEW_ROUNDS = 3


@dataclass(frozen=True)
class Label:
    """What a line is called; ``reference``: what the others are compared with."""

    text: str
    reference: bool = False


@dataclass(frozen=True)
class Sides:
    """All ways at one size, in the order of the labels.

    Attributes:
        run: each call runs one slice.
        verify: called at the end with the number of operations that each did, warm-up included;
            raises `WrongSum` where the database tells another number.
    """

    run: Sequence[Side]
    verify: Callable[[Sequence[int]], None]


@dataclass(frozen=True)
class Plan:
    """What `measured` needs to know of a growth.

    Attributes:
        name: that of the growth.
        labels: the lines.
        sizes: what grows; the greatest is left out where time is short.
        prepare: makes what all sides need at a size, and removes it.
        figure: what is plotted of a slice.
        slices: how often each side runs in a round, in turn with the others.
        few_from: the size from which there are fewer rounds.
    """

    name: str
    labels: Sequence[Label]
    sizes: Sequence[int]
    prepare: Callable[[int], AbstractContextManager[Sides]]
    figure: Callable[[Sample], float]
    slices: int = 1
    few_from: float = math.inf

    def rounds(self, size: int, effort: Effort) -> int:
        """How many rounds there are at a size."""
        return min(effort.rounds, MIN_ROUNDS if size < self.few_from else FEW_ROUNDS)


def rate(sample: Sample) -> float:
    """Operations in a second."""
    return sample.operations / sample.seconds


def microseconds(sample: Sample) -> float:
    """What one operation takes."""
    return 1e6 * sample.cost


def beside(pair: Pair) -> Sides:
    """A case, as two lines."""
    return Sides((pair.subject, pair.reference), lambda counted: pair.verify(*counted))


def as_time_allows(sizes: Sequence[int], effort: Effort) -> Sequence[int]:
    """All sizes, or all but the greatest where time is short."""
    return sizes if effort.share >= 1 or len(sizes) == 1 else sizes[:-1]


def measured(plan: Plan, effort: Effort, progress: Progress) -> tuple[Line, ...]:
    """Measure all lines at all sizes, and verify the sums of each size.

    Raises:
        WrongSum: the database does not hold what was counted.
    """
    points: list[list[Point]] = [[] for _ in plan.labels]
    with emptied():
        for size in as_time_allows(plan.sizes, effort):
            samples = _sampled(plan, size, effort, progress)
            for line, of_line in zip(points, samples, strict=True):
                line.append(point(size, [plan.figure(sample) for sample in of_line]))
    return lines(plan.labels, points)


def lines(labels: Sequence[Label], points: Sequence[Sequence[Point]]) -> tuple[Line, ...]:
    """The lines with these labels."""
    pairs = zip(labels, points, strict=True)
    return tuple(Line(label.text, tuple(found), label.reference) for label, found in pairs)


def point(x: float, figures: Sequence[float]) -> Point:
    """What the rounds of one size come to."""
    return Point(x, statistics.median(figures), min(figures), max(figures))


def _sampled(plan: Plan, size: int, effort: Effort, progress: Progress) -> list[list[Sample]]:
    """The samples of each side, one for each round, without the warm-up."""
    turns = itertools.count()
    slices = max(1, round(plan.slices * effort.share))
    with plan.prepare(size) as sides:
        database.settle()
        progress(f"{plan.name} at {size:,}: warm-up")
        samples = [_round(sides.run, 1, turns)]
        rounds = plan.rounds(size, effort)
        for number in range(rounds):
            progress(f"{plan.name} at {size:,}: round {number + 1} of {rounds}")
            samples.append(_round(sides.run, slices, turns))
        of_sides = [list(of_side) for of_side in zip(*samples, strict=True)]
        sides.verify([total(of_side).operations for of_side in of_sides])
    return [of_side[1:] for of_side in of_sides]


def _round(sides: Sequence[Side], slices: int, turns: Iterator[int]) -> list[Sample]:
    """What each side did; who goes first changes from one turn to the next."""
    samples: list[list[Sample]] = [[] for _ in sides]
    pairs = list(zip(samples, sides, strict=True))
    for number in itertools.islice(turns, slices):
        for so_far, side in pairs if number % 2 == 0 else reversed(pairs):
            so_far.append(side())
    return [total(so_far) for so_far in samples]


@contextmanager
def emptied() -> Iterator[None]:
    """Let nothing be left of counters that were made meanwhile, also in Redis.

    What others have counted in this database is gone with it: it is one of our own.
    """
    with database.apart(location()):
        # Known by the name of the cache: what waited elsewhere in it would look lost.
        _truncate(CounterSource)
        try:
            yield
        finally:
            _truncate(Counter, CounterShard, SlottedCounter, CounterDelta, CounterSource)


def _truncate(*models: type[Model]) -> None:
    execute(f"TRUNCATE {', '.join(model._meta.db_table for model in models)}")
