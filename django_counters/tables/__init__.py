"""Tables and their columns. No arithmetic, no SQL."""

from __future__ import annotations

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

# No check runs before the models of all apps are imported, and Django's error names no remedy.
if apps.apps_ready and not apps.is_installed("django_counters"):
    raise ImproperlyConfigured('Counters need "django_counters" in INSTALLED_APPS. Add it.')

from django_counters.tables.schema import (
    CounterArchive,
    CounterBatch,
    CounterHorizon,
    CounterIncident,
    CounterMeasure,
    CounterPartition,
    CounterPosition,
    CounterSource,
    CounterToken,
)
from django_counters.tables.total import TotalField

__all__ = [
    "CounterArchive",
    "CounterBatch",
    "CounterHorizon",
    "CounterIncident",
    "CounterMeasure",
    "CounterPartition",
    "CounterPosition",
    "CounterSource",
    "CounterToken",
    "TotalField",
]
