"""Measures several ways of doing the same at one size after the other.

At each size all ways take turns within a round, and who goes first changes from turn to turn.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Model

from benchmarks import database
from benchmarks.cases.cached import location
from benchmarks.harness import MIN_ROUNDS, Effort, Pair, Sample, Side, in_turn, total
from benchmarks.inspection import execute
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterShard,
    CounterSource,
    SlottedCounter,
)

Lines = list[list[dict[str, float]]]  # of each line its points


class Label(NamedTuple):
    """What a line is called; ``reference``: what the others are compared with."""

    text: str
    reference: bool = False


@dataclass(frozen=True)
class Sides:
    """All ways at one size, in the order of the labels, as both ways of a `Pair`."""

    run: Sequence[Side]
    verify: Callable[[Sequence[int]], None]


@dataclass(frozen=True)
class Growth:
    """One plot: its lines, and what grows along it, without the greatest where time is short.

    ``prepare`` makes what all sides need at a size, and removes it; ``figure`` is what is plotted
    of a slice; ``note`` is what a reader has to know; the name is also that of the file.
    """

    name: str
    title: str
    x: str
    y: str
    durable: bool
    labels: Sequence[Label]
    sizes: Sequence[int]
    prepare: Callable[[int], AbstractContextManager[Sides]]
    figure: Callable[[Sample], float]
    note: str
    slices: int = 1

    def measured(self, effort: Effort) -> Lines:
        """Measure all lines at all sizes, and verify the sums of each size."""
        lines: Lines = [[] for _ in self.labels]
        with emptied():
            for size in self.sizes if effort.share >= 1 else self.sizes[:-1]:
                samples = _sampled(self, size, effort)
                for line, of_line in zip(lines, samples, strict=True):
                    line.append(_point(size, [self.figure(sample) for sample in of_line]))
        return lines

    def fields(self, lines: Lines) -> dict[str, Any]:
        """All of it for JSON."""
        told = ("name", "title", "x", "y", "note")
        pairs = zip(self.labels, lines, strict=True)
        return {
            **{name: getattr(self, name) for name in told},
            "lines": [
                {"label": label.text, "points": points, "reference": label.reference}
                for label, points in pairs
            ],
        }


@contextmanager
def beside(prepare: Callable[[int], AbstractContextManager[Pair]], size: int) -> Iterator[Sides]:
    """What two sides of a case do, as two lines."""
    with prepare(size) as pair:
        yield Sides((pair.subject, pair.reference), lambda counted: pair.verify(*counted))


def rate(sample: Sample) -> float:
    """Operations in a second."""
    return sample.operations / sample.seconds


def microseconds(sample: Sample) -> float:
    """What one operation takes."""
    return 1e6 * sample.cost


def _point(x: int, figures: Sequence[float]) -> dict[str, float]:
    """What the rounds of one size come to."""
    median, least, greatest = statistics.median(figures), min(figures), max(figures)
    return {"x": x, "median": median, "least": least, "greatest": greatest}


def _sampled(growth: Growth, size: int, effort: Effort) -> list[list[Sample]]:
    """The samples of each side, one for each round, without the warm-up."""
    turns = itertools.count()
    slices = max(1, round(growth.slices * effort.share))
    with growth.prepare(size) as sides:
        database.settle()
        samples = [in_turn(sides.run, 1, turns)]
        samples += [
            in_turn(sides.run, slices, turns) for _ in range(min(effort.rounds, MIN_ROUNDS))
        ]
        of_sides = [list(of_side) for of_side in zip(*samples, strict=True)]
        sides.verify([total(of_side).operations for of_side in of_sides])
    return [of_side[1:] for of_side in of_sides]


@contextmanager
def emptied() -> Iterator[None]:
    """Let nothing be left of counters in this database of our own, nor in Redis."""
    with database.apart(location()):
        # Known by the name of the cache: what waited elsewhere in it would look lost.
        _truncate(CounterSource)
        try:
            yield
        finally:
            _truncate(Counter, CounterShard, SlottedCounter, CounterDelta, CounterSource)


def _truncate(*models: type[Model]) -> None:
    execute(f"TRUNCATE {', '.join(model._meta.db_table for model in models)}")
