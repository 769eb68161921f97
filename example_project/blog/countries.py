"""Views by country and day: how one is counted, and what a page shows of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.utils import timezone

from django_counters.contrib import series
from example_project.blog.models import Post
from example_project.countries import COUNTRY_HEADER, LATEST, Cell

DAYS = 7
# Of the days that visitors mean, whatever clock the database was set up by.
ZONE = "UTC"
NOT_TOLD, OTHERS = "not told", "others"
_CODE = re.compile(r"[A-Z]{2}")


class TooOld(ValueError):
    """A view that is no moment, is yet to come, or is too old to be counted."""


class Table(NamedTuple):
    """Days, and the views from each country on each of them; the latest day first."""

    countries: list[str]
    rows: list[tuple[datetime, list[int]]]


def country_of(request: HttpRequest) -> str:
    """The country of a visitor; empty where none is told that could be one."""
    given = request.headers.get(COUNTRY_HEADER, "")
    return given if _CODE.fullmatch(given) else ""


def seen_at(given: str) -> datetime:
    """When a page was seen: now, unless somebody says otherwise.

    Raises:
        TooOld: that cannot be, or is too long ago.
    """
    now = timezone.now()
    if not given:
        return now
    try:
        seen = datetime.fromisoformat(given).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TooOld(given) from error
    if not now - LATEST <= seen <= now:
        raise TooOld(given)
    return seen


def count_view(post: Post, country: str, seen: datetime) -> int | None:
    """Count one, and return how many there are; None where that cannot be told."""
    tags = {"country": country} if country else None
    counted = post.views.increment(at=seen, tags=tags)
    return counted if isinstance(counted, int) else None


def cell(post: Post, country: str, seen: datetime) -> Cell:
    """Where a view is counted."""
    return Cell(post.pk, country, seen.astimezone(UTC).date().isoformat())


def table_of(post: Post) -> Table:
    """The views of the last days that have landed, the country with most of them first."""
    splits = list(series.of(post.views).per("day").last(DAYS).tz(ZONE).by("country"))
    days = zip(*(split.points for split in splits), strict=True)
    rows = [(points[0].start, [point.value for point in points]) for points in days]
    return Table([_name(split.tags["country"]) for split in splits], rows[::-1])


def cells(posts: Any, days: int) -> dict[Cell, int]:
    """The views of all posts by country on each of the last days."""
    asked = series.of(Post.views, posts).per("day").last(days).tz(ZONE).by("country")
    return {
        Cell(pk, split.tags["country"] or "", point.start.date().isoformat()): point.value
        for pk, splits in asked.each().items()
        for split in splits
        for point in split.points
    }


def _name(value: str | None) -> str:
    return NOT_TOLD if value is None else OTHERS if value == "~" else value
