"""Series: counts by period and by tag, and their quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_counters.features import exported

if TYPE_CHECKING:
    from django_counters.contrib.series.models import CounterCell as CounterCell
    from django_counters.contrib.series.models import CounterOccurrence as CounterOccurrence
    from django_counters.contrib.series.models import CounterSample as CounterSample
    from django_counters.contrib.series.models import CounterTag as CounterTag
    from django_counters.contrib.series.occurrences import Occurred as Occurred
    from django_counters.contrib.series.occurrences import OccurrencePoint as OccurrencePoint
    from django_counters.contrib.series.reading import QuotaUsage as QuotaUsage
    from django_counters.contrib.series.reading import Series as Series
    from django_counters.contrib.series.reading import Splits as Splits
    from django_counters.contrib.series.reading import ahistory as ahistory
    from django_counters.contrib.series.reading import aquotas as aquotas
    from django_counters.contrib.series.reading import history as history
    from django_counters.contrib.series.reading import of as of
    from django_counters.contrib.series.reading import quotas as quotas
    from django_counters.contrib.series.recording import prune_history as prune_history
    from django_counters.contrib.series.recording import record_history as record_history
    from django_counters.contrib.series.selection import Bucket as Bucket
    from django_counters.contrib.series.selection import Point as Point
    from django_counters.contrib.series.selection import Split as Split

_HOMES = {
    **dict.fromkeys(("Occurred", "OccurrencePoint"), "occurrences"),
    **dict.fromkeys(("Bucket", "Point", "Split"), "selection"),
    **dict.fromkeys(("QuotaUsage", "Series", "Splits"), "reading"),
    **dict.fromkeys(("CounterCell", "CounterOccurrence", "CounterSample", "CounterTag"), "models"),
    **dict.fromkeys(("record_history", "prune_history"), "recording"),
    **dict.fromkeys(("of", "history", "ahistory", "quotas", "aquotas"), "reading"),
}

__getattr__, __dir__, __all__ = exported(__name__, _HOMES)
