"""What tests of buffers have in common."""

from __future__ import annotations

from django_counters.contrib.buffers.process import buffers as present
from django_counters.models import Counter

# Nothing lands by itself within a test.
LATER = {"seconds": 3600}


def landed(key: str = "hits:home") -> int:
    """What is in the database, or in Redis: not in a buffer."""
    held, present._all = present._all, {}
    try:
        return Counter.objects.value(key)
    finally:
        present._all = held
