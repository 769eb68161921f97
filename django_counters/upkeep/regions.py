"""What regions tell each other: each publishes what it has counted, and copies what others have.

An entry has one writer, its region, and the newest version is all that matters. So nothing counts
twice, however often and in whatever order entries are copied. A position (`CounterPosition`) says
how far each incarnation of a region is: at home its clock, elsewhere what was copied of it and the
clock that was seen then. Its timeline is the life of the server that has published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django.db import DEFAULT_DB_ALIAS, Error

from django_counters.exceptions import (
    CounterError,
    InvalidConfiguration,
    RegionAway,
    RegionRestored,
)
from django_counters.peers.database import DatabasePeer
from django_counters.peers.declared import peers_of
from django_counters.peers.marks import Mark, Marks, is_ahead, marks_of, present
from django_counters.peers.peer import Peer
from django_counters.regions import Regions, regions
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.stores.sql.positions import Moved
from django_counters.stores.sql.regions import CLOSED, COMPLETE, Of, SqlRegions, is_another_history
from django_counters.types import key_range
from django_counters.upkeep.transfers import receive, there_is_stock, top_up

# For how many seconds a server waits for the next statement of somebody who copies.
_LEASE = 60.0


@dataclass(slots=True)
class Exchanged:
    """What was published, or copied of one region.

    Attributes:
        entries: how many entries.
        pages: in how many transactions.
        busy: whether somebody else is just doing it.
        problem: why nothing could be copied; empty where it could.
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
    run at once, and one of them works. It begins anew where it was interrupted.

    Raises:
        InvalidConfiguration: this is no region.
        RegionRestored: a peer knows more of this region than itself; or it has a stock, and its
            database was recovered, promoted or loaded.
        RegionAway: the server has started, and not every region can be asked whether it knows more.
    """
    declared, done = regions(), Exchanged()
    store = registry.regions(using)
    of, life = _greeted(declared, store, using)
    for low, high in scopes():
        for page in store.ranges(low, high):
            with store.transaction():
                done.busy = not _published(store, of, life, page, done, using)
            if done.busy:
                return done
    registry.positions(using).touch(COMPLETE, declared.own)
    return done


def _published(
    store: SqlRegions, of: Of, life: str, page: tuple[str, str], done: Exchanged, using: str
) -> bool:
    """Publish one page; False where somebody else holds the clock."""
    positions = registry.positions(using)
    held = positions.hold(of.source, of.part)
    # A pooler may have gone on with a server that was put back since, and with this very row.
    if held is None or not held.timeline == life == store.life():
        return False
    clock = Mark.of(held).position + 1
    # A second statement: it sees what was committed before the clock was held.
    entries = store.publish(of, *page, clock)
    if entries:
        positions.move([Move(of.source, of.part, held.position, str(clock), life)])
        done.entries += entries
        done.pages += 1
    return True


def scopes() -> Iterator[tuple[str, str]]:
    """From which key on and before which one the counters of each regional namespace are."""
    for name, policy in registry.policies().items():
        if policy.regional:
            yield key_range(name)


def _greeted(declared: Regions, store: SqlRegions, using: str) -> tuple[Of, str]:
    """The present incarnation, and the life that it publishes in.

    A server that was started may have been restored. So it asks all peers before it publishes, and
    lets pages be of no use that somebody has read of its former life.
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


def begin_life(declared: Regions, of: Of, before: str, life: str, using: str) -> None:
    """Tell everybody in which life of the server this region publishes; see `greet`.

    Nothing is changed here where somebody else has begun another one since ``before``, or a fence.
    """
    greet(declared, of, using)
    store = registry.regions(using)
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
    # Somebody else may begin this one at this moment.
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
            known = peer.greet(of, registry.regions(using).life)
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


def pull(using: str = DEFAULT_DB_ALIAS) -> dict[str, Exchanged]:
    """Copy what other regions have published since the last time.

    Each page is one transaction: entries, and how far they are. A region that cannot be asked is
    left out, and says why. Then stock arrives that was sent to this region. Any number can run at
    once, and one of them works on each region.

    Raises:
        InvalidConfiguration: this is no region.
        RegionRestored: as `publish`. No stock arrives.
    """
    declared, found = regions(), dict[str, Exchanged]()
    for name, peer in peers_of(declared).items():
        done = found[name] = Exchanged()
        try:
            _copy(name, peer, declared, using, done)
        except Moved:
            done.busy = True
        except (Error, CounterError) as error:
            done.problem = reason_of(error)
    if there_is_stock():
        _move_stock(declared, found, using)
    return found


def _incarnations(name: str, there: Marks, peer: Peer, declared: Regions) -> Iterator[Of]:
    """All of a region, and of what it was or is called elsewhere than in the settings here."""
    known = {declared.own, *declared.peers}
    homes = {other: marks for other, marks in peer.homes().items() if other not in known}
    for region, marks in {name: there, **homes}.items():
        for number in sorted(marks):
            yield Of(region, number)


def _move_stock(declared: Regions, found: dict[str, Exchanged], using: str) -> None:
    """Let stock arrive that was sent here, and send some to those that have little.

    Not before the others have said that this region was not restored: its stock may have arrived
    before.
    """
    try:
        of, life = _greeted(declared, registry.regions(using), using)
        for name, amount in receive(of, life, using).items():
            found.setdefault(name, Exchanged()).received += amount
        peers = [Of(name, max(marks_of(name, using), default=1)) for name in declared.peers]
        for name, amount in top_up(of, life, peers, using).items():
            found[name].sent += amount
    except RegionAway as error:
        found[error.peer].problem = found[error.peer].problem or error.reason


def _copy(name: str, peer: Peer, declared: Regions, using: str, done: Exchanged) -> None:
    """Copy all pages of one region, and say when all of it was here."""
    # In this order: whatever is known here was there before.
    known, there = marks_of(name, using), peer.marks(name)
    for of in _incarnations(name, there, peer, declared):
        while _pulled(of, peer, using, done):
            pass
    number, mark = present(there)
    if mark.timeline != CLOSED and is_ahead(known, number, mark):
        done.problem = f"{name} was restored from a backup, and is not fenced yet"
    if there and not (done.busy or done.problem):
        registry.positions(using).touch(COMPLETE, name)


def _pulled(of: Of, peer: Peer, using: str, done: Exchanged) -> bool:
    """Copy one page; whether there may be more."""
    positions, here = registry.positions(using), registry.regions(using)
    positions.make(of.source, of.part)
    with here.transaction():
        held = positions.hold(of.source, of.part, _LEASE)
        if held is None:
            done.busy = True
            return False
        page = peer.page(of, Mark.of(held).position)
        if page is None:
            return False
        if page.life == CLOSED:
            # It has ended: pages that were read of it before are of no use.
            positions.label(of.source, of.part, CLOSED)
        elif held.timeline not in ("", page.life):
            # Its server was started. It is going to ask before it publishes.
            done.problem = f"{of.region} was started, and has not published since"
            return False
        here.store(of, page.entries)
        after = f"{page.last}/{page.clock}"
        positions.move([Move(of.source, of.part, held.position, after, page.life)])
    done.entries += len(page.entries)
    done.pages += 1
    return True
