"""The state of regions: the age of the last publication of this one, and its copies of the others.

All ages are differences of one clock, that of this region's server: clocks of regions may be wrong.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from django.db import connections, router
from django.utils.translation import gettext as _

from django_counters.observe.redises import reason_of
from django_counters.regions import Regions, are_there, regions
from django_counters.registry import registry
from django_counters.stores.sql.positions import Age
from django_counters.stores.sql.regions import CLOSED, COMPLETE, source_of
from django_counters.tables import CounterPosition
from django_counters.tables.standing import COUNTERS
from django_counters.tenants import acting_for, tenant
from django_counters.upkeep.regions import known_by
from django_counters.write.marks import Marks, is_ahead, marks_of, present

#: A region that publishes and copies every few seconds has missed several turns.
BEHIND = timedelta(seconds=60)
#: How many seconds peers are waited for, all together.
PATIENCE = 5.0
_THREAD = "django_counters-regions"
# Of `COMPLETE`, and of each region: the space that follows the word is before "!".
_FIRST, _LAST = COMPLETE, f"{COMPLETE}!"


@dataclass(frozen=True, slots=True)
class Copied:
    """The copy that this region has of another one.

    Attributes:
        region: the other one.
        lag: how long ago all that it had published was here; None: never.
        problem: why it could not be asked, where it was asked.
        knows_more: whether it knows more of this region than the region itself, as far as it was
            asked: this one was restored from a backup.
    """

    region: str
    lag: timedelta | None = None
    problem: str = ""
    knows_more: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """The exchange of a region with others.

    Attributes:
        region: its name; empty where there are no regions.
        incarnation: in which one it is.
        published: how long ago all of it was published; None: never.
        peers: its copy of each other region.
        strangers: regions that have counted here, are not in ``COUNTERS_REGIONS``, and have not
            ended.
    """

    region: str = ""
    incarnation: int = 1
    published: timedelta | None = None
    peers: tuple[Copied, ...] = ()
    strangers: tuple[str, ...] = ()

    @property
    def seconds(self) -> dict[str, float | None]:
        """How many seconds ago all of each region was here, this one first; None: never."""
        own = [(self.region, self.published)] if self.region else []
        ages = [*own, *((one.region, one.lag) for one in self.peers)]
        return {name: None if age is None else age.total_seconds() for name, age in ages}


def exchanged(using: str) -> Exchange:
    """How the region of a database is, in one query. Asks no other region.

    Raises:
        InvalidConfiguration: the settings are wrong.
    """
    if not are_there() or not router.allow_migrate_model(using, CounterPosition):
        return Exchange()
    declared = regions()
    if using in declared.peers.values():
        return Exchange()
    rows = registry.positions(using).ages(_FIRST, _LAST)
    # Another database of this region takes part where something was published or copied in it.
    return _told(declared, rows) if rows or using == COUNTERS.writing() else Exchange()


def _told(declared: Regions, rows: Sequence[Age]) -> Exchange:
    ages = {row.part: row.age for row in rows if row.source == COMPLETE}
    # A region that has ended was renamed.
    copied = {row.source for row in rows if row.position and row.timeline != CLOSED}
    own = source_of(declared.own)
    known = {own, COMPLETE, *map(source_of, declared.peers)}
    return Exchange(
        region=declared.own,
        incarnation=max((int(row.part) for row in rows if row.source == own), default=1),
        published=ages.get(declared.own),
        peers=tuple(Copied(name, ages.get(name)) for name in declared.peers),
        strangers=tuple(sorted(name.partition(" ")[2] for name in copied - known)),
    )


def inquired(found: Exchange, using: str, patience: float = PATIENCE) -> Exchange:
    """Ask all others whether they know more of this region than itself, in limited time."""
    if not found.region:
        return found
    known = _known(regions(), patience)
    # Asked afterwards: all entries that a peer knows were here before, unless they are gone.
    home = marks_of(found.region, using)
    peers = (_of_peer(peer, known.get(peer.region), home, patience) for peer in found.peers)
    return replace(found, peers=tuple(peers))


def _of_peer(peer: Copied, known: Marks | Exception | None, home: Marks, patience: float) -> Copied:
    if known is None:
        late = _("it does not answer within %(seconds)d s") % {"seconds": patience}
        return replace(peer, problem=late)
    if isinstance(known, Exception):
        return replace(peer, problem=reason_of(known))
    return replace(peer, knows_more=is_ahead(known, *present(home)))


def _known(declared: Regions, patience: float) -> dict[str, Marks | Exception]:
    """What peers know of this region, of those that answer in time.

    Each is asked in a thread: how long it takes to connect is not for a statement to limit.
    """
    found: dict[str, Marks | Exception] = {}
    name = tenant()

    def ask(peer: Regions) -> None:
        try:
            with acting_for(name):
                found.update(known_by(peer))
        finally:
            connections.close_all()

    threads = []
    until = time.monotonic() + patience
    for name, alias in declared.peers.items():
        peer = Regions(declared.own, {name: alias})
        # A daemon thread that hangs does not keep the process from ending.
        threads.append(threading.Thread(target=ask, args=(peer,), daemon=True, name=_THREAD))
        threads[-1].start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return dict(found)
