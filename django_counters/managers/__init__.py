"""The managers: one for each way to count."""

from __future__ import annotations

from django_counters.managers.deltas import DeltaManager
from django_counters.managers.named import CounterManager
from django_counters.managers.rows import CounterRows
from django_counters.managers.shards import ShardManager
from django_counters.managers.slots import SlotManager

__all__ = ["CounterManager", "CounterRows", "DeltaManager", "ShardManager", "SlotManager"]
