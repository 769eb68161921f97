"""Holds: quantities that are reserved for a while, and then sold or given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_counters.features import exported

if TYPE_CHECKING:
    from django_counters.contrib.holds.errors import HoldEnded as HoldEnded
    from django_counters.contrib.holds.errors import HoldExpired as HoldExpired
    from django_counters.contrib.holds.errors import HoldLimitExceeded as HoldLimitExceeded
    from django_counters.contrib.holds.errors import HoldMissing as HoldMissing
    from django_counters.contrib.holds.errors import UnsupportedHold as UnsupportedHold
    from django_counters.contrib.holds.holding import Hold as Hold
    from django_counters.contrib.holds.holding import Stock as Stock
    from django_counters.contrib.holds.holding import afind as afind
    from django_counters.contrib.holds.holding import ahold as ahold
    from django_counters.contrib.holds.holding import aof as aof
    from django_counters.contrib.holds.holding import arelease as arelease
    from django_counters.contrib.holds.holding import astocktake as astocktake
    from django_counters.contrib.holds.holding import find as find
    from django_counters.contrib.holds.holding import hold as hold
    from django_counters.contrib.holds.holding import of as of
    from django_counters.contrib.holds.holding import release as release
    from django_counters.contrib.holds.holding import stocktake as stocktake
    from django_counters.contrib.holds.models import CounterHold as CounterHold
    from django_counters.contrib.holds.upkeep import expire_holds as expire_holds

_ERRORS = ("HoldEnded", "HoldExpired", "HoldLimitExceeded", "HoldMissing", "UnsupportedHold")
_CALLS = ("hold", "find", "of", "stocktake", "release")
_HOMES = {
    **dict.fromkeys(_ERRORS, "errors"),
    **dict.fromkeys(_CALLS, "holding"),
    **dict.fromkeys((f"a{name}" for name in _CALLS), "holding"),
    "CounterHold": "models",
    "Hold": "holding",
    "Stock": "holding",
    "expire_holds": "upkeep",
}

__getattr__, __dir__, __all__ = exported(__name__, _HOMES)
