"""The cells of counters that are counted by hour and day, and by tags."""

from __future__ import annotations

from collections import Counter as Tally
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from django_counters.cached.flush import flush
from django_counters.contrib.series.cells import decoded
from django_counters.contrib.series.models import CounterCell
from django_counters.registry import registry

MEASURED: dict[str, Any] = {"PER": ["hour", "day"], "TAGS": {"country": 3, "device": 2}}
STRATEGIES = ("exact", "sharded", "ledger", "cached")


def land() -> None:
    """Let what waits in Redis come to the cells."""
    report = flush()
    assert not report.away
    assert not report.busy
    assert not report.quarantined


def cells(key: str, period: str = "day", measure: str = "") -> dict[tuple[datetime, str], int]:
    """The cells of a counter: by the start in UTC, and the tags as they stand there."""
    number = CounterCell.Period[period.upper()]
    rows = CounterCell.objects.filter(key=key, period=number)
    found: Tally[tuple[datetime, str]] = Tally()
    for cell in rows.filter(measure__name=measure) if measure else rows:
        found[cell.start.astimezone(UTC), cell.tags] += cell.value
    return dict(found)


def by_country(key: str, name: str = "hits") -> dict[str | None, int]:
    """The sums of a counter by the values of a tag."""
    stored = registry.measures("default").find(name)
    assert stored
    found: Tally[str | None] = Tally()
    for (_, tags), value in cells(key, measure=name).items():
        found[decoded(tags, stored.tags).get("country")] += value
    return dict(found)


def midnight(moment: datetime) -> datetime:
    """When its day began, by the clocks of the settings, in UTC."""
    local = moment.astimezone(timezone.get_default_timezone())
    return local.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
