"""The managers: one for each way to count."""

from __future__ import annotations

from django_counters.managers.named import CounterManager
from django_counters.managers.rows import CounterRows, DeltaManager, ShardManager, SlotManager

__all__ = ["CounterManager", "CounterRows", "DeltaManager", "ShardManager", "SlotManager"]
