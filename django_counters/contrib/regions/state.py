"""The state of regions: the age of the last publication of this one, and its copies of the others.

All ages are differences of one clock, that of this region's server: clocks of regions may be wrong.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from django.db import connections, router
from django.utils.translation import gettext as _

from django_counters.contrib.regions.declared import Regions, are_there, region_problems, regions
from django_counters.contrib.regions.marks import Marks, is_ahead, marks_of, present
from django_counters.contrib.regions.publishing import known_by
from django_counters.contrib.regions.sql import CLOSED, COMPLETE, source_of
from django_counters.features import Finding, Gauge, GaugeValue
from django_counters.metrics.facts import reason_of
from django_counters.registry import registry
from django_counters.stores.sql.positions import Age
from django_counters.tables import CounterPosition
from django_counters.tables.standing import COUNTERS
from django_counters.tenants import acting_for, tenant

#: A region that publishes and copies every few seconds has missed several turns.
BEHIND = timedelta(seconds=60)
#: How many seconds peers are waited for, all together.
PATIENCE = 5.0
_COMMAND = "manage.py counters"
LAG = Gauge(
    "django_counters_region_lag_seconds",
    "How long ago this region had all that another one had published. Of regions that were copied.",
    ("region",),
)
PUBLISH_AGE = Gauge(
    "django_counters_region_publish_age_seconds",
    "How long ago this region had published all that it had counted; `region` is its own name.",
    ("region",),
)
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


def findings(using: str) -> Iterator[Finding | GaugeValue]:
    """Return missing publications and copies, and how old each is. Asks no other region."""
    problems = list(region_problems(needed=False))
    for problem in problems:
        told = f"{problem} ({_('%(command)s says more') % {'command': 'manage.py check'}})"
        yield _wrong("settings", told, "manage.py check")
    if problems:
        return
    found = exchanged(using)
    if not found.region:
        return
    yield from _if_late(found.region, found.published, f"{_COMMAND} upkeep publish")
    for peer in found.peers:
        yield from _if_late(peer.region, peer.lag, f"{_COMMAND} upkeep pull")
    alone = _("it has counted here, and is not in %(setting)s: is it gone, or renamed?")
    for name in found.strangers:
        told = alone % {"setting": "COUNTERS_REGIONS"}
        yield Finding(f"region {name}", "", 0, 0, told, warns=True)
    for name, seconds in found.seconds.items():
        if seconds is not None:
            yield GaugeValue(PUBLISH_AGE if name == found.region else LAG, (name,), seconds)


def inquiries(using: str) -> Iterator[Finding]:
    """Return what other regions know of this one: whether it was restored from a backup."""
    if any(region_problems(needed=False)):
        return
    found = inquired(exchanged(using), using)
    for peer in found.peers:
        yield from _told_by(found.region, peer)


def _wrong(subject: str, text: str, command: str) -> Finding:
    """Return a finding that needs a person."""
    return Finding(subject, "", 0, 0, text, needed=True, command=command)


def _if_late(region: str, age: timedelta | None, command: str) -> Iterator[Finding]:
    if age is None:
        never = _("%(command)s was never done: does it run?") % {"command": command}
        yield _wrong(f"region {region}", never, command)
    elif age > BEHIND:
        given = {"command": command, "seconds": age.total_seconds()}
        late = _("%(command)s was last done %(seconds)d s ago: does it run?") % given
        yield _wrong(f"region {region}", late, command)


def _told_by(own: str, peer: Copied) -> Iterator[Finding]:
    """The answer of a peer about this region."""
    if peer.knows_more:
        more = _(
            "%(region)s knows more of it than itself, so it was restored from a backup: "
            "run %(command)s"
        )
        command = f"{_COMMAND} regions fence"
        told = more % {"region": peer.region, "command": command}
        yield _wrong(f"region {own}", told, command)
    elif peer.problem:
        mute = _("it cannot be asked: %(reason)s") % {"reason": peer.problem}
        yield Finding(f"region {peer.region}", "", 0, 0, mute, warns=True)
