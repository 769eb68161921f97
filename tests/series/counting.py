"""What the tests of ``series`` count, and by which periods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django_counters.contrib import series
from django_counters.contrib.series import Series
from django_counters.contrib.series.calendar import PERIODS
from django_counters.models import Counter

NOW = datetime(2024, 5, 3, 12, 30, tzinfo=UTC)
NOON, MIDNIGHT = NOW.replace(minute=0), NOW.replace(hour=0, minute=0)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BERLIN, KOLKATA = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")
NAMESPACES: dict[str, dict[str, Any]] = {
    "signups": {"PER": ["hour", "day"], "TAGS": {"country": 3, "plan": 5}},
    "kept": {"PER": ["minute", "hour", "day"], "KEEP": {"minute": 1, "hour": 7}},
    "short": {"PER": ["hour"], "KEEP": {"hour": 7}},
    "days": {"PER": ["day"]},
    "weeks": {"PER": ["week"]},
    "spread": {"STRATEGY": "sharded", "PER": ["minute"]},
    "every": {"PER": list(PERIODS)},
    "orders": {"STRATEGY": "ledger"},
    "plain": {},
}
objects = Counter.objects


def count(moment: datetime, by: int = 1, key: str = "signups:a", **tags: str) -> None:
    """Count when something happened."""
    objects.increment(key, by, at=moment, tags=tags or None)


def ask(key: str = "signups:a") -> Series:
    """The series of a counter."""
    return series.of(key)


def values(points: Any) -> list[int]:
    """The numbers of points."""
    return [point.value for point in points]
