"""Reading and deleting whole namespaces of named counters."""

from __future__ import annotations

from django.db.models import Q

from django_counters.models import Counter, CounterShard


def named_counters(*names: str) -> dict[str, int]:
    """Key and exact value of every counter of these namespaces, ordered by key."""
    return Counter.objects.values_of(sorted(key for name in names for key in _keys(name)))


def remove(name: str) -> int:
    """Delete the counters of a namespace, and return how many there were."""
    found = len(_keys(name))
    for model in (CounterShard, Counter):
        model._base_manager.filter(_within(name)).delete()
    return found


def _keys(name: str) -> list[str]:
    """All keys of a namespace: a total, or as yet only shards that wait for the rollup."""
    totals, waiting = (
        model._base_manager.filter(_within(name)).order_by().values_list("key", flat=True)
        for model in (Counter, CounterShard)
    )
    return list(totals.union(waiting))


def _within(name: str) -> Q:
    # A range of keys, which every database answers from the primary key; ";" follows ":".
    return Q(key__gte=f"{name}:", key__lt=f"{name};")
