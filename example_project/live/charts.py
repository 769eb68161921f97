"""Orders by hour and by minute, as bars in SVG: drawn here, so a browser needs nothing for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.template.loader import render_to_string
from django.utils import timezone

from django_counters import Bucket
from django_counters.models import Counter
from example_project.tally import ORDERS

WIDTH, HEIGHT = 652, 170
LEFT, TOP, BOTTOM = 52, 12, 24
MOST_LINES = 4
EVERY_LABEL = 6
# A period, and how many of them are shown.
PERIODS = (("hour", timedelta(hours=1), 24), ("minute", timedelta(minutes=1), 30))


@dataclass(frozen=True)
class Bar:
    """One period: where its bar stands, how tall it is, and what it says."""

    bucket: Bucket
    x: int
    y: int
    width: int
    height: int
    is_labelled: bool


@dataclass(frozen=True)
class Line:
    """A line across the chart, and the number that it stands for."""

    y: int
    number: int


@dataclass(frozen=True)
class Chart:
    """All that a template needs; measures are those of the view box."""

    by: str
    buckets: list[Bucket]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT

    @property
    def ground(self) -> int:
        """Where the bars stand."""
        return HEIGHT - BOTTOM

    @property
    def total(self) -> int:
        """All orders that are shown."""
        return sum(bucket.change for bucket in self.buckets)

    @property
    def most(self) -> Bucket:
        """The tallest one."""
        return max(self.buckets, key=lambda bucket: bucket.change)

    @property
    def lines(self) -> list[Line]:
        """The lines at round numbers, the uppermost at or above the tallest bar."""
        step = _step(self.most.change)
        top = -(-max(self.most.change, 1) // step) * step
        return [Line(self._y(number, top), number) for number in range(0, top + 1, step)]

    @property
    def bars(self) -> list[Bar]:
        """The bars, from left to right."""
        top = self.lines[-1].number
        pitch = (WIDTH - LEFT) // len(self.buckets)
        return [
            Bar(
                bucket=bucket,
                x=LEFT + place * pitch + 2,
                y=self._y(bucket.change, top),
                width=pitch - 4,
                height=self.ground - self._y(bucket.change, top),
                is_labelled=place % EVERY_LABEL == 0,
            )
            for place, bucket in enumerate(self.buckets)
        ]

    def _y(self, number: int, top: int) -> int:
        return self.ground - max(number, 0) * (self.ground - TOP) // top


def _step(most: int) -> int:
    """The least of 1, 2, 5, 10, 20, … that needs few lines to get so far."""
    step, factors = 1, (2, 5, 10)
    while most > step * MOST_LINES:
        decade = 10 ** (len(str(step)) - 1)
        step = next(decade * factor for factor in factors if decade * factor > step)
    return step


def orders() -> list[Chart]:
    """The orders of the last hours and of the last minutes, from their history in the ledger."""
    now = timezone.now()
    return [
        Chart(by, Counter.objects.history(ORDERS, by=by, since=now - length * (shown - 1)))
        for by, length, shown in PERIODS
    ]


def fragments(charts: list[Chart]) -> dict[str, str]:
    """What changes of the page while it is shown: the id of an element, and its content."""
    return {
        f"orders-{part}-{chart.by}": render_to_string(f"live/{part}.html", {"chart": chart}).strip()
        for chart in charts
        for part in ("bars", "rows")
    }
