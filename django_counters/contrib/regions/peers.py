"""The peers of ``COUNTERS_REGIONS``."""

from __future__ import annotations

from collections.abc import Mapping

from django_counters.contrib.regions.database import DatabasePeer
from django_counters.contrib.regions.declared import Regions, is_address, region_secrets
from django_counters.contrib.regions.over_http import HttpPeer
from django_counters.contrib.regions.peer import Peer


def peers_of(declared: Regions) -> Mapping[str, Peer]:
    """Return {name: peer} for the other regions."""
    return {name: _peer(declared, name, place) for name, place in declared.peers.items()}


def _peer(declared: Regions, name: str, place: str) -> Peer:
    if not is_address(place):
        return DatabasePeer(place)
    return HttpPeer(place, declared.own, name, region_secrets()[0])
