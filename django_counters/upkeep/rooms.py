"""How many counters strangers have created, and how many they may."""

from __future__ import annotations

from typing import NamedTuple

from django.db import router

from django_counters.limits.admission import created_key
from django_counters.models import Counter
from django_counters.read.values import values_of
from django_counters.registry import registry


class Room(NamedTuple):
    """One namespace: how many of its counters were created over HTTP, and how many may be."""

    namespace: str
    created: int
    most: int


def rooms(using: str) -> list[Room]:
    """The namespaces in which the API may create counters, if it does so in this database."""
    if router.db_for_write(Counter) != using:
        return []
    caps = {
        namespace: policy.access.max_counters
        for namespace, policy in registry.policies().items()
        if policy.access.creates
    }
    created = values_of(map(created_key, caps), using)
    return [Room(name, created[created_key(name)], most) for name, most in caps.items()]
