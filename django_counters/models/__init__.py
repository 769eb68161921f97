"""Tables and their columns. No arithmetic, no SQL."""

from __future__ import annotations

from django_counters.models.counter import Counter
from django_counters.models.total import TotalField

__all__ = ["Counter", "TotalField"]
