"""A region that was restored from a backup: others know what it has forgotten.

Its incarnation ends with the newest entries that anybody has, and another one begins. What of each
counter is known to others counts as theirs; the rest is published anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db import DEFAULT_DB_ALIAS

from django_counters.contrib.regions.declared import Regions, regions
from django_counters.contrib.regions.errors import RegionAway, RegionRestored
from django_counters.contrib.regions.marks import Mark, Marks, is_ahead, present
from django_counters.contrib.regions.peer import Peer
from django_counters.contrib.regions.peers import peers_of
from django_counters.contrib.regions.publishing import (
    begin_life,
    behind,
    home_marks,
    reaching,
    scopes,
)
from django_counters.contrib.regions.sql import (
    CLOSED,
    Of,
    Page,
    SqlRegions,
    is_another_history,
    source_of,
    store_of,
)
from django_counters.contrib.regions.transfers import freeze, there_is_stock
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position


@dataclass(slots=True)
class Fenced:
    """The findings of a fence.

    Attributes:
        restored: whether it was restored.
        incarnation: in which one it is now.
        entries: how many entries came back.
        amount: how much they are together.
        frozen: how many counters with a floor were set to zero, until a person adjusts them.
        stock: how much those had together.
        heard: when each peer has last copied something. Counts after that and before the restore
            are lost.
    """

    restored: bool = False
    incarnation: int = 1
    entries: int = 0
    amount: int = 0
    frozen: int = 0
    stock: int = 0
    heard: dict[str, datetime | None] = field(default_factory=dict)


def fence(using: str = DEFAULT_DB_ALIAS, *, restored: bool | None = None) -> Fenced:
    """Bring a region that was restored up to what others know of it, before it counts again.

    Asks all peers. Where none knows more, nothing is changed. It can be repeated after any
    interruption. Counts between the restore and this are lost in part.

    Args:
        using: the database.
        restored: the knowledge of the person who calls. True: it was, or something may be missing.
            False: nothing is missing. None: find out.

    Raises:
        RegionAway: a peer cannot be asked, or another process publishes or fences. Nothing is
            changed here.
        RegionRestored: it has a stock, and no peer can tell; or it was restored, and
            ``restored`` says that it was not.
    """
    declared, store = regions(), store_of(using)
    life, known = store.life(), _ask(declared)
    # Read last: others of this region may publish meanwhile, and peers know that at once.
    home = home_marks(declared.own, using)
    last, mark = present(home)
    if not _was_restored(declared.own, known, home, life, restored):
        begin_life(declared, Of(declared.own, last), mark.timeline, life, using)
        return Fenced(incarnation=last)
    new = max(last, *(max(marks, default=0) for marks in known.values())) + 1
    done = Fenced(True, new, heard=_heard(declared))
    ended = range(last, new)
    _close(declared, ended, store)
    with store.transaction():
        _begin(declared, store, ended, life, using, done)
    return done


def _was_restored(
    region: str, known: Mapping[str, Marks], home: Marks, life: str, said: bool | None
) -> bool:
    """Whether a region was restored, by the knowledge of peers and of the caller."""
    last, mark = present(home)
    ahead = [name for name, marks in known.items() if is_ahead(marks, last, mark)]
    if ahead and said is False:
        raise behind(region, ahead[0])
    elsewhere = is_another_history(mark.timeline, life)
    if not ahead and said is None and elsewhere and there_is_stock():
        reason = "its database has another history; say --restored or --intact"
        raise RegionRestored(region=region, reason=reason)
    return bool(ahead or said)


def _ask(declared: Regions) -> Mapping[str, Marks]:
    found = {}
    for name, peer in peers_of(declared).items():
        with reaching(name, declared.own):
            found[name] = peer.marks(declared.own)
    return found


def _heard(declared: Regions) -> dict[str, datetime | None]:
    found = {}
    for name, peer in peers_of(declared).items():
        with reaching(name, declared.own):
            found[name] = peer.heard(declared.own)
    return found


def _close(declared: Regions, ended: range, store: SqlRegions) -> None:
    """Invalidate pages that another process has read of ending incarnations. The next number
    is taken."""
    for name, peer in peers_of(declared).items():
        with reaching(name, declared.own):
            peer.close(declared.own, ended, store.life)


def _begin(
    declared: Regions, store: SqlRegions, ended: range, life: str, using: str, done: Fenced
) -> None:
    """Learn back what peers have, end what was, and begin anew: one transaction."""
    region, first, new = declared.own, ended.start, ended.stop
    positions = registry.positions(using)
    positions.make(source_of(region), str(first))
    held = positions.hold(source_of(region), str(first))
    if held is None or held.timeline == CLOSED:
        reason = "another process publishes or fences at this moment"
        raise RegionAway(peer=region, region=region, reason=reason)
    clock = Mark.of(held).position
    known = _ask(declared)
    # A backup from before a fence: others have counts from it, and it is not known how many.
    whole = any(mark.seen for marks in known.values() for one, mark in marks.items() if one > first)
    before = store.sum(region)
    if whole:
        store.drop(Of(region, first))
    for number in ended:
        since = clock if number == first and not whole else 0
        done.entries += _learn(declared, Of(region, number), store, since)
    done.amount = store.sum(region) - before
    for low, high in scopes():
        for page in store.ranges(low, high):
            store.begin(Of(region, first), Of(region, new), clock, *page, whole=whole)
    # After its counters have begun anew: other regions do not know the stock that it takes away.
    done.frozen, done.stock = freeze(store, region, using)
    for number in ended:
        seen = [marks[number].seen for marks in known.values() if number in marks]
        end(store, Of(region, number), max([clock, *seen]), using)
    positions.label(source_of(region), str(new), life)


def _learn(declared: Regions, of: Of, store: SqlRegions, since: int) -> int:
    """Copy what peers have of this region after a version; how many entries are newer here."""
    return sum(
        store.store(of, page.entries)
        for name, peer in peers_of(declared).items()
        for page in _pages(name, peer, of, since)
    )


def _pages(name: str, peer: Peer, of: Of, since: int) -> Iterator[Page]:
    while True:
        with reaching(name, of.region):
            page = peer.page(of, since)
        if page is None:
            return
        yield page
        since = page.last


def end(store: SqlRegions, of: Of, clock: int, using: str) -> None:
    """Give all entries new versions: a peer may have passed any of them without having it."""
    for low, high in store.ranges_of(of):
        clock += 1
        store.end(of, low, high, clock)
    registry.positions(using).put(of.source, of.part, Position(str(clock), CLOSED))
