"""Tables and their columns. No arithmetic, no SQL."""

from __future__ import annotations

from django_counters.models.adjustment import CounterAdjustment
from django_counters.models.batch import CounterBatch, CounterSource
from django_counters.models.counter import Counter
from django_counters.models.delta import CounterDelta
from django_counters.models.horizon import CounterHorizon
from django_counters.models.incident import CounterIncident
from django_counters.models.limit import CounterLimit
from django_counters.models.partition import CounterArchive, CounterPartition
from django_counters.models.request import AdjustmentRequest
from django_counters.models.sample import CounterSample
from django_counters.models.shard import CounterShard
from django_counters.models.slot import SlottedCounter
from django_counters.models.token import CounterToken
from django_counters.models.total import TotalField

__all__ = [
    "AdjustmentRequest",
    "Counter",
    "CounterAdjustment",
    "CounterArchive",
    "CounterBatch",
    "CounterDelta",
    "CounterHorizon",
    "CounterIncident",
    "CounterLimit",
    "CounterPartition",
    "CounterSample",
    "CounterShard",
    "CounterSource",
    "CounterToken",
    "SlottedCounter",
    "TotalField",
]
