"""Reading and deleting whole namespaces of named counters."""

from __future__ import annotations

from django.db.models import QuerySet

from django_counters.models import Counter


def namespace(name: str) -> QuerySet[Counter]:
    """The counters whose key starts with ``name`` and a colon."""
    # A range of keys, which every database answers from the primary key; ";" follows ":".
    found: QuerySet[Counter] = Counter.objects.filter(key__gte=f"{name}:", key__lt=f"{name};")
    return found


def named_counters(*names: str) -> dict[str, int]:
    """Key and value of every stored counter of these namespaces, ordered by key."""
    return {
        key: value
        for name in names
        for key, value in namespace(name).order_by("key").values_list("key", "value")
    }
