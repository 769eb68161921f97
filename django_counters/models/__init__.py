"""Tables and their columns. No arithmetic, no SQL."""

from __future__ import annotations

from django_counters.models.counter import Counter
from django_counters.models.shard import CounterShard
from django_counters.models.slot import SlottedCounter
from django_counters.models.total import TotalField

__all__ = ["Counter", "CounterShard", "SlottedCounter", "TotalField"]
