"""The peers of ``COUNTERS_REGIONS``."""

from __future__ import annotations

from collections.abc import Mapping

from django_counters.peers.database import DatabasePeer
from django_counters.peers.peer import Peer
from django_counters.regions import Regions


def peers_of(declared: Regions) -> Mapping[str, Peer]:
    """How each other region is asked, by its name."""
    return {name: DatabasePeer(alias) for name, alias in declared.peers.items()}
