"""The managers: one for each way to count."""

from __future__ import annotations

from typing import Any

from django.db import models

from django_counters.managers.deltas import DeltaManager
from django_counters.managers.named import CounterManager
from django_counters.managers.rows import CounterRows
from django_counters.managers.shards import ShardManager
from django_counters.managers.slots import SlotManager
from django_counters.models import Counter, CounterDelta, CounterShard, SlottedCounter

__all__ = ["CounterManager", "CounterRows", "DeltaManager", "ShardManager", "SlotManager", "bind"]


def bind() -> None:
    """Give the models their managers, which stand above them: the app does it when ready."""
    managers: dict[type[models.Model], models.Manager[Any]] = {
        Counter: CounterManager(),
        CounterShard: ShardManager(),
        SlottedCounter: SlotManager(),
        CounterDelta: DeltaManager(),
    }
    for model, manager in managers.items():
        options: Any = model._meta
        options.local_managers.clear()
        model.add_to_class("objects", manager)
