"""What tests of buffers have in common."""

from __future__ import annotations

from django_counters.models import Counter
from django_counters.write.buffers import buffers

# Nothing lands by itself within a test.
LATER = {"seconds": 3600}


def landed(key: str = "hits:home") -> int:
    """What is in the database, or in Redis: not in a buffer."""
    held, buffers._all = buffers._all, {}
    try:
        return Counter.objects.value(key)
    finally:
        buffers._all = held
