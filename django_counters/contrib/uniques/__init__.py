"""Distinct people per period, without their names: exact up to 512, then estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_counters.features import exported

if TYPE_CHECKING:
    from django_counters.contrib.uniques.errors import InvalidSketch as InvalidSketch
    from django_counters.contrib.uniques.models import CounterMember as CounterMember
    from django_counters.contrib.uniques.models import CounterUnique as CounterUnique
    from django_counters.contrib.uniques.reading import Distinct as Distinct
    from django_counters.contrib.uniques.reading import UniquePoint as UniquePoint
    from django_counters.contrib.uniques.reading import acount as acount
    from django_counters.contrib.uniques.reading import acount_by as acount_by
    from django_counters.contrib.uniques.reading import aeach as aeach
    from django_counters.contrib.uniques.reading import apoints as apoints
    from django_counters.contrib.uniques.reading import count as count
    from django_counters.contrib.uniques.reading import count_by as count_by
    from django_counters.contrib.uniques.reading import each as each
    from django_counters.contrib.uniques.reading import points as points
    from django_counters.contrib.uniques.sketches import Sketch as Sketch

_CALLS = ("count", "count_by", "each", "points")
_HOMES = {
    **dict.fromkeys((*_CALLS, *(f"a{name}" for name in _CALLS)), "reading"),
    "CounterMember": "models",
    "CounterUnique": "models",
    "Distinct": "reading",
    "InvalidSketch": "errors",
    "Sketch": "sketches",
    "UniquePoint": "reading",
}

__getattr__, __dir__, __all__ = exported(__name__, _HOMES)
