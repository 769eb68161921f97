"""Publishes the counts of this region, for other regions to copy.

An entry has one writer, its region, and only its newest version matters. So nothing counts twice,
in whatever order and however often entries are copied. A position (`CounterPosition`) is the
progress of each incarnation of a region: at home its clock, elsewhere the copied version and the
clock that was read with it. Its timeline is the life of the server that has published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.db import DEFAULT_DB_ALIAS, Error

from django_counters.cached.sources import sources
from django_counters.contrib.regions import sql
from django_counters.contrib.regions.declared import Regions, is_regional, regions
from django_counters.contrib.regions.errors import RegionAway, RegionRestored
from django_counters.contrib.regions.marks import (
    IncarnationMark,
    Marks,
    is_ahead,
    living,
    marks_of,
    present,
)
from django_counters.contrib.regions.peers import DatabasePeer, peers_of
from django_counters.contrib.regions.transfers import there_is_stock
from django_counters.errors import CounterError, CounterUnavailable, InvalidConfiguration
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.stores.sql.batches import SqlBatches
from django_counters.types import key_range


@dataclass(slots=True)
class Exchanged:
    """The result of publishing, or of copying one region.

    Attributes:
        entries: the number of entries.
        pages: the number of transactions.
        busy: whether another process is doing the same now.
        problem: why the result is incomplete; empty if it is complete.
        received: the stock that has arrived from it.
        sent: the stock that was sent to it by ``TOP_UP``.
    """

    entries: int = 0
    pages: int = 0
    busy: bool = False
    problem: str = ""
    received: int = 0
    sent: int = 0


def publish(using: str = DEFAULT_DB_ALIAS) -> Exchanged:
    """Give each changed regional counter a new version, for other regions to copy.

    Each page is one transaction, which locks the region's clock and raises it. Any number can run
    at once, and one of them works. After an interruption, repeat it. For cached counters it
    publishes flushed counts; if their Redis is unavailable, they are left out and ``problem`` is
    set.

    Raises:
        InvalidConfiguration: this project isn't a region.
        RegionRestored: a peer has more of this region's counts than itself; or it has stock, and
            its database was recovered, promoted or loaded.
        RegionAway: the server was started, and a region that may have more is unavailable.
    """
    declared, done = regions(), Exchanged()
    publisher = _Publisher(*greeted(declared, sql.store_of(using), using), using)
    for name, policy in registry.policies().items():
        if is_regional(policy) and not done.busy:
            try:
                publisher.publish(key_range(name), done, waits=policy.recipe.can.outside)
            except CounterUnavailable as error:
                if error.using == using:
                    raise
                done.problem = f"{name}: {reason_of(error)}"
    if not (done.busy or done.problem):
        registry.positions(using).touch(sql.COMPLETE, declared.own)
    return done


class _Publisher(NamedTuple):
    """Publishes for an incarnation of this region, while its server is in this life."""

    of: sql.Incarnation
    life: str
    using: str

    def publish(self, scope: tuple[str, str], done: Exchanged, *, waits: bool) -> None:
        """Publish one namespace, page by page; ``waits``: it may have pending counts in Redis."""
        store = sql.store_of(self.using)
        for page in store.ranges(*scope):
            with store.transaction():
                entries = self._page(store, page)
                if waits and entries:
                    # Before the commit, no other region can copy the page.
                    settle(self.using)
            if entries is None:
                done.busy = True
                return
            done.entries += entries
            done.pages += bool(entries)

    def _page(self, store: sql.SqlRegions, page: tuple[str, str]) -> int | None:
        """Publish one page; return the number of entries, None if another process has the clock."""
        of, life, positions = self.of, self.life, registry.positions(self.using)
        held = positions.hold(of.source, of.part)
        # A pooler may have reconnected to a server that was restored since, with the same row.
        if held is None or not held.timeline == life == store.life():
            return None
        clock = IncarnationMark.of(held).position + 1
        # A second statement: it sees all commits before the clock was locked.
        entries = store.publish(of, *page, clock)
        if entries:
            positions.move([Move(of.source, of.part, held.position, str(clock), life)])
        return entries


def scopes() -> Iterator[tuple[str, str]]:
    """Yield the range of keys of each regional namespace."""
    for name, policy in registry.policies().items():
        if is_regional(policy):
            yield key_range(name)


def greeted(declared: Regions, store: sql.SqlRegions, using: str) -> tuple[sql.Incarnation, str]:
    """Return the present incarnation and life of this region.

    A server that was started may have been restored. So this asks all peers first, and invalidates
    pages that were read in its former life.
    """
    life, known = store.life(), known_by(declared)
    # Read last: a concurrent process may publish, and peers may have copied that at once.
    home = home_marks(declared.own, using)
    number, mark = present(home)
    of = sql.Incarnation(declared.own, number)
    if mark.timeline == life:
        greet(declared._replace(peers=_misled(declared, known, home)), of, using)
        return of, life
    if there_is_stock() and sql.is_another_history(mark.timeline, life):
        reason = "its database has another history than at its last publication"
        raise RegionRestored(region=declared.own, reason=reason)
    begin_life(declared, of, mark.timeline, life, using)
    return of, life


def landing_life(using: str) -> tuple[int, str] | None:
    """Return the incarnation and life for flushes of regional counters; None without cached ones.

    A server that was started may have been restored. The fence would mistake counts that are
    flushed before it for counts that other regions have copied.

    Raises:
        RegionRestored: publish first, which asks the others, or run the fence.
    """
    policies = registry.policies().values()
    if not any(is_regional(policy) and policy.recipe.can.outside for policy in policies):
        return None
    own = regions().own
    present = living(own, using)
    if present is None:
        reason = "it has not published since its server was started"
        raise RegionRestored(region=own, reason=reason)
    return present


def begin_life(declared: Regions, of: sql.Incarnation, before: str, life: str, using: str) -> None:
    """Announce the server's life to all peers, and set it here; see `greet`.

    Changes nothing here if another process has begun a life or a fence since ``before``.
    """
    greet(declared, of, using)
    store = sql.store_of(using)
    with store.transaction():
        # Behind a pooler, the server may have been started again since.
        if store.life() == life:
            registry.positions(using).relabel(of.source, of.part, before, life)


def home_marks(region: str, using: str) -> Marks:
    """Return the marks of this region at home.

    Raises:
        InvalidConfiguration: this database is the home of another region.
    """
    marks = marks_of(region, using)
    # Without this region: a concurrent process may have begun it since.
    others = [] if marks else sorted(DatabasePeer(using).homes().keys() - {region})
    if others:
        problem = f"this database is region {others[0]}. Run counters regions rename {others[0]}"
        raise InvalidConfiguration(problem=problem)
    return marks


def _misled(
    declared: Regions, known: Mapping[str, Marks | Exception], home: Marks
) -> Mapping[str, str]:
    """Return the peers with another life, which a late process may have announced."""
    number, mark = present(home)
    misled = {}
    for name, there in known.items():
        if isinstance(there, dict):
            if is_ahead(there, number, mark):
                raise behind(declared.own, name)
            if there.get(number, IncarnationMark()).timeline not in ("", mark.timeline):
                misled[name] = declared.peers[name]
    return misled


def greet(declared: Regions, of: sql.Incarnation, using: str) -> None:
    """Ask each peer whether it has more of this region's counts; announce the server's life.

    Raises:
        RegionAway: a peer is unavailable.
        RegionRestored: a peer has more.
    """
    for name, peer in peers_of(declared).items():
        with reaching(name, declared.own):
            known = peer.greet(of, sql.store_of(using).life)
            # Read last: a concurrent process may publish.
            mark = marks_of(declared.own, using).get(of.incarnation, IncarnationMark())
            if is_ahead(known, of.incarnation, mark):
                raise behind(declared.own, name)


def behind(region: str, peer: str) -> RegionRestored:
    """Return the error for a region whose peer has more of its counts."""
    return RegionRestored(region=region, reason=f"{peer} has more of its counts than itself")


class reaching:  # noqa: N801
    """A block that asks a peer. Its errors become `RegionAway` with the peer's name."""

    def __init__(self, peer: str, region: str) -> None:
        self._peer = peer
        self._region = region

    def __enter__(self) -> None:
        """Nothing is opened here."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (Error, CounterError)) and not isinstance(error, RegionRestored):
            raise RegionAway(peer=self._peer, region=self._region, reason=reason_of(error))


def known_by(declared: Regions) -> Mapping[str, Marks | Exception]:
    """Return each peer's marks of this region, or its error."""
    known: dict[str, Marks | Exception] = {}
    for name, peer in peers_of(declared).items():
        try:
            known[name] = peer.marks(declared.own)
        except (Error, CounterError) as error:
            known[name] = error
    return known


def reason_of(error: BaseException) -> str:
    """Return the first line of an error."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def settle(using: str) -> None:
    """Remove all flushed counts from Redis.

    After a restore a region copies back all that it has published, and counts in Redis are flushed.
    So no count may be in both places.

    Raises:
        CounterUnavailable: a Redis is unavailable, and may hold flushed counts.
        InvalidConfiguration: a cache of cached counters isn't a Redis.
    """
    for pending in sources(using):
        if not any(slot.sealed for slot in pending.waiting()):
            continue
        sealed = [one for cut in pending.cut() for one in cut.sealed]
        landed = registry.kept(SqlBatches, using).known([one.generation for one in sealed])
        done = [one for one in sealed if one.generation in landed]
        # First: Redis's totals may lack amounts that the landing has refused.
        pending.acknowledge({}, {one.slot for one in done})
        pending.acknowledge(dict.fromkeys(done, ()))
