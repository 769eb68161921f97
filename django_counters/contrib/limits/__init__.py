"""Rate limits: decorators, a throttle for REST framework, and calls.

Add ``"django_counters.contrib.limits"`` to ``INSTALLED_APPS``. Names are resolved on first use:
Django imports this package before it has models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_counters.features import exported

if TYPE_CHECKING:
    from django_counters.contrib.limits.algorithms import LimitResult as LimitResult
    from django_counters.contrib.limits.decorators import limited as limited
    from django_counters.contrib.limits.decorators import tell_limits as tell_limits
    from django_counters.contrib.limits.limit import Limit as Limit
    from django_counters.contrib.limits.limit import limit_away as limit_away
    from django_counters.contrib.limits.models import CounterLimit as CounterLimit

_HOMES = {
    "CounterLimit": "models",
    "Limit": "limit",
    "LimitResult": "algorithms",
    "limit_away": "limit",
    "limited": "decorators",
    "tell_limits": "decorators",
}

__getattr__, __dir__, __all__ = exported(__name__, _HOMES)
