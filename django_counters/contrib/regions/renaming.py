"""Renames a region: the former name ends, and keeps its counts."""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS

from django_counters.contrib.regions.declared import Regions, regions, sent_to
from django_counters.contrib.regions.errors import RegionAway
from django_counters.contrib.regions.fencing import end
from django_counters.contrib.regions.marks import (
    IncarnationMark,
    Marks,
    is_ahead,
    marks_of,
    present,
)
from django_counters.contrib.regions.peers import peers_of
from django_counters.contrib.regions.publishing import behind, reaching, scopes
from django_counters.contrib.regions.sql import CLOSED, Incarnation, SqlRegions, store_of
from django_counters.contrib.regions.transfers import stocks
from django_counters.exceptions import InvalidConfiguration
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position


def rename(former: str, using: str = DEFAULT_DB_ALIAS) -> int:
    """Rename a region to ``COUNTERS_REGION``; return the number of published entries.

    In one transaction, counts under the former name are published under it, for the last time, and
    later counts are counted under the new name. Counting goes on. A repeated call changes nothing.

    Raises:
        InvalidConfiguration: the database isn't the region ``former``, a region has the new name,
            or this region has stock: send it to others before.
        RegionAway: a region is unavailable, or another process publishes. Nothing is changed.
        RegionRestored: a region has more of this region's counts than itself: fence it under its
            former name.
    """
    declared, store = regions(), store_of(using)
    home = marks_of(former, using)
    number, mark = present(home)
    if mark.timeline == CLOSED and marks_of(declared.own, using):
        return 0
    if not any(one.seen for one in home.values()):
        raise InvalidConfiguration(problem=f"this database has published nothing as {former!r}.")
    _ask(declared, former, home)
    with store.transaction():
        return _renamed(store, Incarnation(former, number), Incarnation(declared.own, 1), using)


def _ask(declared: Regions, former: str, home: Marks) -> None:
    """Ask all peers whether the new name is free, and whether the region was restored."""
    for name, peer in peers_of(declared).items():
        with reaching(name, former):
            namesake, known = peer.marks(declared.own), peer.marks(former)
        if namesake:
            problem = f"{name} already has counts of a region {declared.own!r}."
            raise InvalidConfiguration(problem=problem)
        if is_ahead(known, *present(home)):
            raise behind(former, name)


def _renamed(store: SqlRegions, of: Incarnation, to: Incarnation, using: str) -> int:
    positions = registry.positions(using)
    held = positions.hold(of.source, of.part)
    if held is None or held.timeline == CLOSED:
        reason = "another process publishes or renames at this moment"
        raise RegionAway(peer=of.region, region=of.region, reason=reason)
    _refuse_stock(store, of)
    clock, entries = IncarnationMark.of(held).position + 1, 0
    for low, high in scopes():
        for page in store.ranges(low, high):
            entries += store.publish(of, *page, clock)
        for page in store.ranges(low, high):
            store.begin(of, to, clock, *page, whole=False)
    end(store, of, clock, using)
    positions.put(to.source, to.part, Position("", store.life()))
    return entries


def _refuse_stock(store: SqlRegions, of: Incarnation) -> None:
    """Refuse to rename a region with stock: others would still send to the former name."""
    if any(store.stock(*scope) for scope in stocks()) or store.above_zero(*sent_to(*of)):
        problem = "this region has stock. Send it to others, and let it arrive, before you rename."
        raise InvalidConfiguration(problem=problem)
