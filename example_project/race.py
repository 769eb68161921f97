"""Every view of a post is counted twice: in a plain column, and in a counter of this app.

The plain column is read, added to and written, as any record is. Nothing is arranged: what it
loses, it loses because two requests come at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from django.db.models import Sum

from django_counters import CounterUnavailable
from django_counters.models import CounterAdjustment
from django_counters.signals import batch_applied, counter_adjusted
from django_counters.types import Batch
from example_project.blog.models import Post
from example_project.flow import Flow, exact_views, grouped, landed_views
from example_project.tally import VIEWS, Tally, unknown

NAIVE, OURS = "naive", "ours"
ROWS = {
    "written": "Written",
    "in_flight": "+ in flight",
    "unknown": "+ unknown",
    "waiting": "= in Redis",
    "landed": "+ in the database",
    "lost": "+ lost",
    "not_counted": "+ not counted",
}


class Standing(NamedTuple):
    """Where the same views are: those of the plain column, and those of our counter."""

    naive: Flow
    ours: Flow

    @property
    def lost(self) -> tuple[str, str]:
        """What each of them has lost, as it is shown."""
        return grouped(self.naive.lost), grouped(self.ours.lost)

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """What is shown of both: the first three numbers of each are its last four."""
        naive, ours = (
            [grouped(getattr(flow, what)) for what in ROWS] for flow in (self.naive, self.ours)
        )
        return list(zip(ROWS.values(), naive, ours, strict=True))

    def __str__(self) -> str:
        return f"naive: {self.lost[0]} lost · ours: {self.lost[1]} lost"


class Race:
    """Compares both since it was made: when nothing waits, and before anybody counts.

    Args:
        sums: tells of which views nobody knows whether they were counted.
    """

    def __init__(self, sums: Callable[[], Mapping[str, int]] = dict) -> None:
        self.told = Tally()
        self._sums = sums
        self._began = {NAIVE: _in_the_column(), OURS: exact_views()}

    def read(self) -> Standing:
        """Where the views are at this moment.

        What was told is read first, and what has begun last. So nothing seems lost that is only on
        its way, and all that may be on its way is in flight.
        """
        return Standing(self._naive(), self._ours())

    def _naive(self) -> Flow:
        told = self.told.sums()
        column = _in_the_column() - self._began[NAIVE]
        return Flow(told[NAIVE], 0, column, asked=self._asked(NAIVE, told))

    def _ours(self) -> Flow:
        told, doubts = self.told.sums(), self._sums()
        landed = landed_views() - self._began[OURS]
        try:
            waiting: int | None = exact_views() - self._began[OURS] - landed
        except CounterUnavailable:
            waiting = None
        unsure = sum(by for name, by in doubts.items() if name.startswith(unknown(VIEWS)))
        return Flow(told[OURS], waiting, landed, unsure, self._asked(OURS, told))

    def _asked(self, way: str, told: Mapping[str, int]) -> int:
        """How many have begun by now and had not ended when that was told."""
        return self.told.sums()[f"{way} begun"] - told.get(f"{way} ended", 0)

    def hear(self, batch: Batch, subject: str, **_: object) -> None:
        """Note what our counter has counted, whoever has asked for it."""
        if subject == VIEWS:
            self.told.add(OURS, sum(delta.by for delta in batch.deltas))

    def hear_adjusted(self, adjustment: CounterAdjustment, **_: object) -> None:
        """Note what a person has adjusted."""
        if adjustment.field == VIEWS:
            self.told.add(OURS, adjustment.delta)


_races: list[Race] = []


@contextmanager
def racing(race: Race) -> Iterator[Race]:
    """Let it hear of all views meanwhile, and the pages show it."""
    batch_applied.connect(race.hear)
    counter_adjusted.connect(race.hear_adjusted)
    _races.append(race)
    try:
        yield race
    finally:
        _races.remove(race)
        counter_adjusted.disconnect(race.hear_adjusted)
        batch_applied.disconnect(race.hear)


def standing() -> Standing | None:
    """What the pages show; None where nothing is compared."""
    return _races[-1].read() if _races else None


@contextmanager
def counting(way: str) -> Iterator[None]:
    """A view is counted in this block: it is in flight until the end."""
    asked = list(_races)
    for race in asked:
        race.told.add(f"{way} begun")
    try:
        yield
    finally:
        for race in asked:
            race.told.add(f"{way} ended")


def count_naively(pk: int) -> None:
    """Read, add, write. Whoever has read before another one writes, takes that one's view away."""
    post = Post.objects.get(pk=pk)
    post.naive_views = post.naive_views + 1
    with counting(NAIVE):
        post.save()
        for race in _races:
            race.told.add(NAIVE)


def _in_the_column() -> int:
    return int(Post.objects.aggregate(sum=Sum("naive_views", default=0))["sum"])
