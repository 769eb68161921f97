"""Orders and views over time, as bars in SVG: drawn here, so a browser needs nothing for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.template.loader import render_to_string
from django.utils import timezone

from django_counters.contrib import series
from django_counters.contrib.series import Bucket
from example_project.blog.models import Post
from example_project.tally import ORDERS

WIDTH, HEIGHT = 652, 170
LEFT, TOP, BOTTOM = 52, 12, 24
MOST_LINES = 4
EVERY_LABEL = 6
HOURS = 24
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

    of: str
    by: str
    buckets: list[Bucket]
    told: str
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT

    @property
    def ground(self) -> int:
        """Where the bars stand."""
        return HEIGHT - BOTTOM

    @property
    def total(self) -> int:
        """All that are shown."""
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


def all_charts() -> list[Chart]:
    """All charts of the page."""
    return [*orders(), views()]


def views() -> Chart:
    """The views of the last hours that have landed, of all posts."""
    points = series.of(Post.views, Post.objects.all()).per("hour").last(HOURS).list()
    buckets = [Bucket(point.start, point.end, point.value, None) for point in points]
    return Chart("views", "hour", buckets, "as far as they are in the database")


def orders() -> list[Chart]:
    """The orders of the last hours and of the last minutes, from their history in the ledger."""
    now = timezone.now()
    return [
        Chart("orders", by, _history(by, now - length * (shown - 1)), "as the ledger tells them")
        for by, length, shown in PERIODS
    ]


def _history(by: str, since: datetime) -> list[Bucket]:
    return series.history(ORDERS, by=by, since=since)


def fragments(charts: list[Chart]) -> dict[str, str]:
    """What changes of the page while it is shown: the id of an element, and its content."""
    return {
        f"{chart.of}-{part}-{chart.by}": render_to_string(
            f"live/{part}.html", {"chart": chart}
        ).strip()
        for chart in charts
        for part in ("bars", "rows")
    }
