"""Counters of each kind that are counted by period and tag, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django_counters.cached.flush import flush
from django_counters.contrib import series
from django_counters.contrib.series import Series
from django_counters.rest import expose
from django_counters.testing import override_counters
from tests.rest.conftest import ALL, ORIGIN
from tests.testapp.models import Story

TAGS = {"country": 3, "plan": 2}
MEASURED: dict[str, Any] = {"PER": ["hour", "day"], "TAGS": TAGS, "API": ALL}
NAMED = {"exact": "signups:a", "sharded": "sales:a", "ledger": "trips:a", "cached": "reads:a"}
FIELDS = {"exact field": "opens", "slotted field": "plays", "cached field": "reads"}
KINDS = [*NAMED, *FIELDS]
_PINGS = {"read": "anyone", "increment": "beacon", "origins": [ORIGIN], "limit": "600/min"}
NAMESPACES: dict[str, dict[str, Any]] = {
    "signups": MEASURED,
    "sales": {"STRATEGY": "sharded", **MEASURED},
    "trips": {"STRATEGY": "ledger", **MEASURED},
    "reads": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, **MEASURED},
    "pings": {**MEASURED, "API": _PINGS},
}


@contextmanager
def declared() -> Iterator[dict[str, str]]:
    """The key of one counter of each of `KINDS`."""
    story = Story.objects.create()
    expose(Story, *FIELDS.values(), **ALL)
    fields = {kind: f"testapp.Story.{name}:{story.pk}" for kind, name in FIELDS.items()}
    with override_counters(**NAMESPACES):
        yield {**NAMED, **fields}


def series_of(key: str) -> Series:
    """What the database tells of a counter, once all has landed."""
    land()
    if not key.startswith("testapp"):
        return series.of(key)
    label, _, pk = key.partition(":")
    found: Series = series.of(getattr(Story.objects.get(pk=pk), label.rpartition(".")[2]))
    return found


def land() -> None:
    """Let what waits in Redis come to the cells."""
    report = flush()
    assert not report.away
    assert not report.busy
    assert not report.quarantined
