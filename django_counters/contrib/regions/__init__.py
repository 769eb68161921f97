"""Counters that several regions count, each in a database of its own.

Add ``"django_counters.contrib.regions"`` to ``INSTALLED_APPS``. Names are resolved on first use:
Django imports this package before it has models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_counters.features import exported

if TYPE_CHECKING:
    from django_counters.contrib.regions.errors import RegionAway as RegionAway
    from django_counters.contrib.regions.errors import RegionRestored as RegionRestored
    from django_counters.contrib.regions.errors import UnsupportedRegions as UnsupportedRegions
    from django_counters.contrib.regions.fencing import fence as fence
    from django_counters.contrib.regions.fencing import rename as rename
    from django_counters.contrib.regions.publishing import publish as publish
    from django_counters.contrib.regions.pulling import pull as pull
    from django_counters.contrib.regions.reading import CounterOverRegions as CounterOverRegions
    from django_counters.contrib.regions.reading import RegionalCounter as RegionalCounter
    from django_counters.contrib.regions.reading import avalue as avalue
    from django_counters.contrib.regions.reading import avalues_of as avalues_of
    from django_counters.contrib.regions.reading import by_region as by_region
    from django_counters.contrib.regions.reading import value as value
    from django_counters.contrib.regions.reading import values_of as values_of
    from django_counters.contrib.regions.transfers import atransfer as atransfer
    from django_counters.contrib.regions.transfers import transfer as transfer

_HOMES = {
    **dict.fromkeys(("CounterOverRegions", "RegionalCounter", "by_region"), "reading"),
    **dict.fromkeys(("value", "avalue", "values_of", "avalues_of"), "reading"),
    **dict.fromkeys(("RegionAway", "RegionRestored", "UnsupportedRegions"), "errors"),
    **dict.fromkeys(("fence", "rename"), "fencing"),
    **dict.fromkeys(("transfer", "atransfer"), "transfers"),
    "publish": "publishing",
    "pull": "pulling",
}

__getattr__, __dir__, __all__ = exported(__name__, _HOMES)
