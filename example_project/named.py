"""Reading and deleting whole namespaces of named counters."""

from __future__ import annotations

from django.db.models import F, Q

from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.uniques import CounterMember, CounterUnique
from django_counters.models import (
    Counter,
    CounterArchive,
    CounterDelta,
    CounterPartition,
    CounterShard,
)


def named_counters(*names: str, consistency: str = "exact") -> dict[str, int]:
    """Key and value of every counter of these namespaces, ordered by key.

    A cached counter is among them when something of it has landed.
    """
    keys = sorted(key for name in names for key in keys_of(name))
    return Counter.objects.values_of(keys, consistency=consistency)


def remove(name: str) -> int:
    """Delete the counters of a namespace, and return how many there were.

    With their entries in the ledger: a site would keep those for as long as it has declared.
    """
    found = len(keys_of(name))
    _take_from_sealed_partitions(name)
    of_counters = CounterShard, CounterDelta, CounterArchive, CounterCell
    for model in (*of_counters, CounterMember, CounterUnique, Counter):
        model._base_manager.filter(_within(name)).delete()
    return found


def _take_from_sealed_partitions(name: str) -> None:
    """What was written down of them has to agree with what is left."""
    for archive in CounterArchive._base_manager.filter(_within(name)).exclude(partition=""):
        CounterPartition._base_manager.filter(name=archive.partition).update(
            entries=F("entries") - archive.entries, delta_sum=F("delta_sum") - archive.delta_sum
        )


def keys_of(name: str) -> list[str]:
    """All keys of a namespace: a total, or as yet only shards that wait for the rollup."""
    totals, waiting = (
        model._base_manager.filter(_within(name)).order_by().values_list("key", flat=True)
        for model in (Counter, CounterShard)
    )
    return list(totals.union(waiting))


def _within(name: str) -> Q:
    # A range of keys, which every database answers from the primary key; ";" follows ":".
    return Q(key__gte=f"{name}:", key__lt=f"{name};")
