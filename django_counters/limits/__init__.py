"""Rate limits, and limits of the number of counters."""

from __future__ import annotations

from django_counters.limits.algorithms import Taken
from django_counters.limits.decorators import limited
from django_counters.limits.headers import tell_limits
from django_counters.limits.limit import Limit

__all__ = ["Limit", "Taken", "limited", "tell_limits"]
