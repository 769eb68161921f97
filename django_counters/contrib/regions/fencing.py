"""Fences a region that was restored from a backup, and renames regions.

A fence brings the region up to the copies of the others. Its incarnation ends with the newest
entries of any region, and another one begins. Counts that others have copied belong to the ended
incarnation; the rest is published in the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from django.db import DEFAULT_DB_ALIAS

from django_counters.contrib.regions import publishing, sql
from django_counters.contrib.regions.declared import Regions, regions, sent_to
from django_counters.contrib.regions.errors import RegionAway, RegionRestored
from django_counters.contrib.regions.marks import (
    IncarnationMark,
    Marks,
    Peer,
    is_ahead,
    marks_of,
    present,
)
from django_counters.contrib.regions.peers import peers_of
from django_counters.contrib.regions.transfers import freeze, stocks, there_is_stock
from django_counters.errors import InvalidConfiguration
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position

_Answer = TypeVar("_Answer")

# Fencing.


@dataclass(slots=True)
class Fenced:
    """The result of a fence.

    Attributes:
        restored: whether the region was restored.
        incarnation: its present incarnation.
        entries: the number of entries that came back.
        amount: their sum.
        frozen: the number of stocks that were set to zero, until a person adjusts them.
        stock: the sum that those had.
        heard: when each peer last copied from this region. Counts after that and before the restore
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
    """Bring a restored region up to the copies of the others, before it counts again.

    Asks all peers. If none has more than this region, nothing is changed. It can be repeated after
    any interruption. Counts between the restore and this call may be lost.

    Args:
        using: the database.
        restored: True: it was restored, or something may be missing. False: nothing is missing.
            None: find out.

    Raises:
        RegionAway: a peer is unavailable, or another process publishes or fences. Nothing is
            changed here.
        RegionRestored: it has stock and another history, and no peer has more: pass ``restored``;
            or a peer has more, though ``restored`` is False.
    """
    declared, store = regions(), sql.store_of(using)
    life, known = store.life(), _ask(declared, lambda peer: peer.marks(declared.own))
    # Read last: a concurrent process may publish, and peers may have copied that at once.
    home = publishing.home_marks(declared.own, using)
    last, mark = present(home)
    if not _was_restored(declared.own, known, home, life, restored):
        publishing.begin_life(
            declared, sql.Incarnation(declared.own, last), mark.timeline, life, using
        )
        return Fenced(incarnation=last)
    new = max(last, *(max(marks, default=0) for marks in known.values())) + 1
    done = Fenced(True, new, heard=_ask(declared, lambda peer: peer.heard(declared.own)))
    ended = range(last, new)
    # This invalidates pages of the ending incarnations, and reserves the next number.
    _ask(declared, lambda peer: peer.close(declared.own, ended, store.life))
    with store.transaction():
        _begin(declared, store, ended, life, using, done)
    return done


def _was_restored(
    region: str, known: Mapping[str, Marks], home: Marks, life: str, restored: bool | None
) -> bool:
    """Return whether a region was restored, by its peers and by the caller."""
    last, mark = present(home)
    ahead = [name for name, marks in known.items() if is_ahead(marks, last, mark)]
    if ahead and restored is False:
        raise publishing.behind(region, ahead[0])
    elsewhere = sql.is_another_history(mark.timeline, life)
    if not ahead and restored is None and elsewhere and there_is_stock():
        reason = "its database has another history. Pass --restored or --intact"
        raise RegionRestored(region=region, reason=reason)
    return bool(ahead or restored)


def _ask(declared: Regions, question: Callable[[Peer], _Answer]) -> dict[str, _Answer]:
    """Return the answer of each peer."""
    answers = {}
    for name, peer in peers_of(declared).items():
        with publishing.reaching(name, declared.own):
            answers[name] = question(peer)
    return answers


def _begin(
    declared: Regions, store: sql.SqlRegions, ended: range, life: str, using: str, done: Fenced
) -> None:
    """Copy back the peers' entries, end the old incarnations, and begin the new one.

    Call it in a transaction.
    """
    region, first, new = declared.own, ended.start, ended.stop
    positions = registry.positions(using)
    positions.make(sql.source_of(region), str(first))
    held = positions.hold(sql.source_of(region), str(first))
    if held is None or held.timeline == sql.CLOSED:
        reason = "another process publishes or fences at this moment"
        raise RegionAway(peer=region, region=region, reason=reason)
    clock = IncarnationMark.of(held).position
    known = _ask(declared, lambda peer: peer.marks(region))
    # In a backup from before an earlier fence, the amount that others have copied is unknown.
    whole = any(mark.seen for marks in known.values() for one, mark in marks.items() if one > first)
    before = store.sum(region)
    if whole:
        store.drop(sql.Incarnation(region, first))
    for number in ended:
        since = clock if number == first and not whole else 0
        done.entries += _learn(declared, sql.Incarnation(region, number), store, since)
    done.amount = store.sum(region) - before
    to = sql.Incarnation(region, new)
    for low, high in publishing.scopes():
        for page in store.ranges(low, high):
            store.begin(sql.Incarnation(region, first), to, clock, *page, whole=whole)
    # After the counters' new entries: other regions haven't copied the stock that it takes away.
    done.frozen, done.stock = freeze(store, region, using)
    for number in ended:
        seen = [marks[number].seen for marks in known.values() if number in marks]
        end(store, sql.Incarnation(region, number), max([clock, *seen]), using)
    positions.label(sql.source_of(region), str(new), life)


def _learn(declared: Regions, of: sql.Incarnation, store: sql.SqlRegions, since: int) -> int:
    """Copy the peers' entries of this region after a version; return the number of newer ones."""
    return sum(
        store.store(of, page.entries)
        for name, peer in peers_of(declared).items()
        for page in _pages(name, peer, of, since)
    )


def _pages(name: str, peer: Peer, of: sql.Incarnation, since: int) -> Iterator[sql.EntryPage]:
    while True:
        with publishing.reaching(name, of.region):
            page = peer.page(of, since)
        if page is None:
            return
        yield page
        since = page.last


def end(store: sql.SqlRegions, of: sql.Incarnation, clock: int, using: str) -> None:
    """Give all entries new versions: a peer's position may be after an entry that it lacks."""
    for low, high in store.ranges_of(of):
        clock += 1
        store.end(of, low, high, clock)
    registry.positions(using).put(of.source, of.part, Position(str(clock), sql.CLOSED))


# Renaming: the former name ends, and keeps its counts.


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
    declared, store = regions(), sql.store_of(using)
    home = marks_of(former, using)
    number, mark = present(home)
    if mark.timeline == sql.CLOSED and marks_of(declared.own, using):
        return 0
    if not any(one.seen for one in home.values()):
        raise InvalidConfiguration(problem=f"this database has published nothing as {former!r}.")
    _check_new_name(declared, former, home)
    with store.transaction():
        return _renamed(
            store, sql.Incarnation(former, number), sql.Incarnation(declared.own, 1), using
        )


def _check_new_name(declared: Regions, former: str, home: Marks) -> None:
    """Ask all peers whether the new name is free, and whether the region was restored."""
    for name, peer in peers_of(declared).items():
        with publishing.reaching(name, former):
            namesake, known = peer.marks(declared.own), peer.marks(former)
        if namesake:
            problem = f"{name} already has counts of a region {declared.own!r}."
            raise InvalidConfiguration(problem=problem)
        if is_ahead(known, *present(home)):
            raise publishing.behind(former, name)


def _renamed(store: sql.SqlRegions, of: sql.Incarnation, to: sql.Incarnation, using: str) -> int:
    positions = registry.positions(using)
    held = positions.hold(of.source, of.part)
    if held is None or held.timeline == sql.CLOSED:
        reason = "another process publishes or renames at this moment"
        raise RegionAway(peer=of.region, region=of.region, reason=reason)
    if any(store.stock(*scope) for scope in stocks()) or store.above_zero(*sent_to(*of)):
        # Others would still send to the former name.
        problem = "this region has stock. Send it to others, and let it arrive, before you rename."
        raise InvalidConfiguration(problem=problem)
    clock, entries = IncarnationMark.of(held).position + 1, 0
    for low, high in publishing.scopes():
        for page in store.ranges(low, high):
            entries += store.publish(of, *page, clock)
        for page in store.ranges(low, high):
            store.begin(of, to, clock, *page, whole=False)
    end(store, of, clock, using)
    positions.put(to.source, to.part, Position("", store.life()))
    return entries
