"""What regions tell each other: each publishes what it has counted, and copies what others have.

An entry has one writer, its region, and the newest version is all that matters. So nothing counts
twice, however often and in any order entries are copied. A position (`CounterPosition`) says
how far each incarnation of a region is: at home its clock, elsewhere what was copied of it and the
clock that was seen then. Its timeline is the life of the server that has published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.db import DEFAULT_DB_ALIAS, Error

from django_counters.contrib.regions.database import DatabasePeer
from django_counters.contrib.regions.declared import Regions, is_regional, regions
from django_counters.contrib.regions.errors import RegionAway, RegionRestored
from django_counters.contrib.regions.marks import Mark, Marks, is_ahead, living, marks_of, present
from django_counters.contrib.regions.peers import peers_of
from django_counters.contrib.regions.sql import (
    COMPLETE,
    Of,
    SqlRegions,
    is_another_history,
    store_of,
)
from django_counters.contrib.regions.transfers import there_is_stock
from django_counters.exceptions import CounterError, CounterUnavailable, InvalidConfiguration
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.types import key_range
from django_counters.upkeep.sources import sources


@dataclass(slots=True)
class Exchanged:
    """The result of publishing, or of copying one region.

    Attributes:
        entries: how many entries.
        pages: in how many transactions.
        busy: whether another process is just doing it.
        problem: why not all could be published or copied; empty where it could.
        received: how much stock has come from it.
        sent: how much stock it was sent, because it had little.
    """

    entries: int = 0
    pages: int = 0
    busy: bool = False
    problem: str = ""
    received: int = 0
    sent: int = 0


def publish(using: str = DEFAULT_DB_ALIAS) -> Exchanged:
    """Give each regional counter that has changed a new version, for other regions to copy.

    Each page is one transaction: it holds the clock of the region, and raises it. Any number can
    run at once, and one of them works. It begins anew where it was interrupted. Of cached counters
    it publishes what has landed; while a Redis cannot be reached they are left out, and it says
    why.

    Raises:
        InvalidConfiguration: this is no region.
        RegionRestored: a peer knows more of this region than itself; or it has a stock, and its
            database was recovered, promoted or loaded.
        RegionAway: the server has started, and not every region can be asked whether it knows more.
    """
    declared, done = regions(), Exchanged()
    publisher = _Publisher(*greeted(declared, store_of(using), using), using)
    for name, policy in registry.policies().items():
        if is_regional(policy) and not done.busy:
            try:
                publisher.publish(key_range(name), done, waits=policy.recipe.can.outside)
            except CounterUnavailable as error:
                if error.using == using:
                    raise
                done.problem = f"{name}: {reason_of(error)}"
    if not (done.busy or done.problem):
        registry.positions(using).touch(COMPLETE, declared.own)
    return done


class _Publisher(NamedTuple):
    """Publishes for an incarnation of this region, as long as it is in this life."""

    of: Of
    life: str
    using: str

    def publish(self, scope: tuple[str, str], done: Exchanged, *, waits: bool) -> None:
        """Publish one namespace, page by page; ``waits``: a part of it is in a Redis."""
        store = store_of(self.using)
        for page in store.ranges(*scope):
            with store.transaction():
                entries = self._page(store, page)
                if waits and entries:
                    # Before it is committed: no other region has heard of it yet.
                    settle(self.using)
            if entries is None:
                done.busy = True
                return
            done.entries += entries
            done.pages += bool(entries)

    def _page(self, store: SqlRegions, page: tuple[str, str]) -> int | None:
        """Publish one page; how many entries. None where another process holds the clock."""
        of, life, positions = self.of, self.life, registry.positions(self.using)
        held = positions.hold(of.source, of.part)
        # A pooler may have gone on with a server that was put back since, and with this very row.
        if held is None or not held.timeline == life == store.life():
            return None
        clock = Mark.of(held).position + 1
        # A second statement: it sees what was committed before the clock was held.
        entries = store.publish(of, *page, clock)
        if entries:
            positions.move([Move(of.source, of.part, held.position, str(clock), life)])
        return entries


def scopes() -> Iterator[tuple[str, str]]:
    """From which key on and before which one the counters of each regional namespace are."""
    for name, policy in registry.policies().items():
        if is_regional(policy):
            yield key_range(name)


def greeted(declared: Regions, store: SqlRegions, using: str) -> tuple[Of, str]:
    """The present incarnation, and the life that it publishes in.

    A server that was started may have been restored. So it asks all peers before it publishes, and
    makes pages useless that were read of its former life.
    """
    life, known = store.life(), known_by(declared)
    # Read last: others of this region may publish meanwhile, and peers know that at once.
    home = home_marks(declared.own, using)
    number, mark = present(home)
    of = Of(declared.own, number)
    if mark.timeline == life:
        greet(declared._replace(peers=_misled(declared, known, home)), of, using)
        return of, life
    if there_is_stock() and is_another_history(mark.timeline, life):
        reason = "its database has another history than when it has last published"
        raise RegionRestored(region=declared.own, reason=reason)
    begin_life(declared, of, mark.timeline, life, using)
    return of, life


def landing_life(using: str) -> tuple[int, str] | None:
    """In which incarnation and life regional counters may land; None where none waits in a Redis.

    A server that was started may have been restored. Landings before the fence would be mistaken
    for counts that others know.

    Raises:
        RegionRestored: the region has to publish first, which asks the others, or to be fenced.
    """
    policies = registry.policies().values()
    if not any(is_regional(policy) and policy.recipe.can.outside for policy in policies):
        return None
    own = regions().own
    found = living(own, using)
    if found is None:
        reason = "it has not published since its server was started"
        raise RegionRestored(region=own, reason=reason)
    return found


def begin_life(declared: Regions, of: Of, before: str, life: str, using: str) -> None:
    """Tell everybody in which life of the server this region publishes; see `greet`.

    Nothing is changed here where another process has begun another one since ``before``, or a
    fence.
    """
    greet(declared, of, using)
    store = store_of(using)
    with store.transaction():
        # Behind a pooler, it may have been started again by now.
        if store.life() == life:
            registry.positions(using).relabel(of.source, of.part, before, life)


def home_marks(region: str, using: str) -> Marks:
    """How far the incarnations of this region are at home.

    Raises:
        InvalidConfiguration: this database is the home of another region.
    """
    marks = marks_of(region, using)
    # Another process may begin this one at this moment.
    others = [] if marks else sorted(DatabasePeer(using).homes().keys() - {region})
    if others:
        problem = f"this database is of region {others[0]}: counters regions rename {others[0]}"
        raise InvalidConfiguration(problem=problem)
    return marks


def _misled(
    declared: Regions, known: Mapping[str, Marks | Exception], home: Marks
) -> Mapping[str, str]:
    """Peers that were told of another life, by one who began in it and came late."""
    number, mark = present(home)
    found = {}
    for name, there in known.items():
        if isinstance(there, dict):
            if is_ahead(there, number, mark):
                raise behind(declared.own, name)
            if there.get(number, Mark()).timeline not in ("", mark.timeline):
                found[name] = declared.peers[name]
    return found


def greet(declared: Regions, of: Of, using: str) -> None:
    """Ask each peer whether it knows more of this region, and tell it the life of the server.

    Raises:
        RegionAway: one cannot be asked.
        RegionRestored: one knows more.
    """
    for name, peer in peers_of(declared).items():
        with reaching(name, declared.own):
            known = peer.greet(of, store_of(using).life)
            # Read last: others of this region may publish meanwhile.
            mark = marks_of(declared.own, using).get(of.incarnation, Mark())
            if is_ahead(known, of.incarnation, mark):
                raise behind(declared.own, name)


def behind(region: str, peer: str) -> RegionRestored:
    """The error of a region of which a peer knows more."""
    return RegionRestored(region=region, reason=f"{peer} knows more of it than itself")


class reaching:  # noqa: N801
    """A block that asks a peer: an error in it says which one is away."""

    def __init__(self, peer: str, region: str) -> None:
        self._peer = peer
        self._region = region

    def __enter__(self) -> None:
        """Nothing is opened here."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (Error, CounterError)) and not isinstance(error, RegionRestored):
            raise RegionAway(peer=self._peer, region=self._region, reason=reason_of(error))


def known_by(declared: Regions) -> Mapping[str, Marks | Exception]:
    """What each peer knows of this region; the error of those that cannot be asked."""
    found: dict[str, Marks | Exception] = {}
    for name, peer in peers_of(declared).items():
        try:
            found[name] = peer.marks(declared.own)
        except (Error, CounterError) as error:
            found[name] = error
    return found


def reason_of(error: BaseException) -> str:
    """The first line of an error."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def settle(using: str) -> None:
    """Remove all from Redis that has landed by now.

    A region may learn back all that it has published, after a restore. What still waits in Redis
    then lands after the restore. So nothing may be in both places.

    Raises:
        CounterUnavailable: a Redis cannot be reached, and may hold what has landed.
        InvalidConfiguration: a cache of cached counters is no Redis.
    """
    for pending in sources(using):
        if not any(slot.sealed for slot in pending.waiting()):
            continue
        sealed = [one for cut in pending.cut() for one in cut.sealed]
        landed = registry.batches(using).known([one.generation for one in sealed])
        done = [one for one in sealed if one.generation in landed]
        # First: what Redis knows of totals may lack what the landing has refused.
        pending.acknowledge({}, {one.slot for one in done})
        pending.acknowledge(dict.fromkeys(done, ()))
