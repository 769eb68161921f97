"""The models, with the managers that count.

Those whose managers count stand above all that counts; `django_counters.tables` has their columns,
and the models that are tables alone.
"""

from __future__ import annotations

from django_counters import tables
from django_counters.adjustments.models import AdjustmentRequest, CounterAdjustment
from django_counters.managers import CounterManager, DeltaManager, ShardManager, SlotManager
from django_counters.tables import *  # noqa: F403 - what are tables alone is listed there
from django_counters.tables.schema import CounterColumns, DeltaColumns, ShardColumns, SlotColumns

__all__ = [
    "AdjustmentRequest",
    "Counter",
    "CounterAdjustment",
    "CounterDelta",
    "CounterShard",
    "SlottedCounter",
]
__all__ += tables.__all__


class Counter(CounterColumns):
    """One named number. Change it with the methods of ``Counter.objects``."""

    objects = CounterManager()


class CounterShard(ShardColumns):
    """A part of a named counter. Change it with the methods of ``CounterShard.objects``."""

    objects = ShardManager()


class SlottedCounter(SlotColumns):
    """A part of a record's counter. Change it with the methods of ``SlottedCounter.objects``.

    Slot -1 is the total of a counter for which the record has no column.
    """

    objects = SlotManager()


class CounterDelta(DeltaColumns):
    """An entry of the ledger. Write one with ``CounterDelta.objects.append``; nothing alters it.

    On PostgreSQL the table is partitioned by days of ``created_at``, which is the time that the
    token carries: a token is therefore unique in all partitions.
    """

    objects = DeltaManager()
