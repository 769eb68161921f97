"""The errors of the app."""

from __future__ import annotations

from django.db import OperationalError

from django_counters.errors import CounterError, LandingRefused


class RegionRestored(LandingRefused):
    """The region {region} may have been restored: {reason}. Run counters regions fence."""

    region: str


class RegionAway(CounterError, OperationalError):
    """{peer} can't answer for the region {region}: {reason}."""

    peer: str
    region: str
    reason: str


class UnsupportedRegions(CounterError, ValueError):
    """{key} can't be used over regions: {reason}."""

    key: str
    reason: str
