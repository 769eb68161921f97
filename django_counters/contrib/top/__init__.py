"""The counters with the largest counts of a period, those that rose most, and the place of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_counters.features import exported

if TYPE_CHECKING:
    from django_counters.contrib.top.models import CounterRank as CounterRank
    from django_counters.contrib.top.reading import Placed as Placed
    from django_counters.contrib.top.reading import Ranked as Ranked
    from django_counters.contrib.top.reading import alargest as alargest
    from django_counters.contrib.top.reading import aplace as aplace
    from django_counters.contrib.top.reading import largest as largest
    from django_counters.contrib.top.reading import place as place

_READING = ("largest", "alargest", "place", "aplace", "Ranked", "Placed")

__getattr__, __dir__, __all__ = exported(
    __name__, {**dict.fromkeys(_READING, "reading"), "CounterRank": "models"}
)
