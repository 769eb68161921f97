"""The state of regions: the ages of this region's publication, and of its copies of the others.

All ages use one clock, that of this region's server, so clocks of regions may be wrong.
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
from django_counters.tables.schema import COUNTERS
from django_counters.tenants import acting_for, tenant

#: A region that publishes and copies every few seconds has missed several turns.
BEHIND = timedelta(seconds=60)
#: Seconds to wait for all peers together.
PATIENCE = 5.0
_COMMAND = "manage.py counters"
LAG = Gauge(
    "django_counters_region_lag_seconds",
    "Seconds since this region had copied all publications of another region.",
    ("region",),
)
PUBLISH_AGE = Gauge(
    "django_counters_region_publish_age_seconds",
    "Seconds since this region had published all its counts; `region` is its own name.",
    ("region",),
)
_THREAD = "django_counters-regions"
# The range of sources: `COMPLETE`, and each region. Their space sorts before "!".
_FIRST, _LAST = COMPLETE, f"{COMPLETE}!"


@dataclass(frozen=True, slots=True)
class Copied:
    """This region's copy of another one.

    Attributes:
        region: the other region.
        lag: the time since all its publications were copied; None: never.
        problem: the error of the peer, if it was asked.
        knows_more: whether it has more of this region's counts than the region itself, if it was
            asked: then this region was restored from a backup.
    """

    region: str
    lag: timedelta | None = None
    problem: str = ""
    knows_more: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """The exchange of a region with others.

    Attributes:
        region: its name; empty without regions.
        incarnation: its present incarnation.
        published: the time since all of it was published; None: never.
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
        """Return the seconds since all of each region was here, this one first; None: never."""
        own = [(self.region, self.published)] if self.region else []
        ages = [*own, *((peer.region, peer.lag) for peer in self.peers)]
        return {name: None if age is None else age.total_seconds() for name, age in ages}


def exchanged(using: str) -> Exchange:
    """Return the state of a database's region, in one query. Asks no other region.

    Raises:
        InvalidConfiguration: the settings are wrong.
    """
    if not are_there() or not router.allow_migrate_model(using, CounterPosition):
        return Exchange()
    declared = regions()
    if using in declared.peers.values():
        return Exchange()
    rows = registry.positions(using).ages(_FIRST, _LAST)
    # Another database of this region counts if it has published or copied.
    return _exchange(declared, rows) if rows or using == COUNTERS.writing() else Exchange()


def _exchange(declared: Regions, rows: Sequence[Age]) -> Exchange:
    ages = {row.part: row.age for row in rows if row.source == COMPLETE}
    # A closed region was renamed.
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


def inquired(exchange: Exchange, using: str, patience: float = PATIENCE) -> Exchange:
    """Ask all peers, in limited time, whether they have more of this region's counts."""
    if not exchange.region:
        return exchange
    known = _known(regions(), patience)
    # Read last: a peer's entries were here before, unless this region was restored.
    home = marks_of(exchange.region, using)
    peers = (_of_peer(peer, known.get(peer.region), home, patience) for peer in exchange.peers)
    return replace(exchange, peers=tuple(peers))


def _of_peer(peer: Copied, known: Marks | Exception | None, home: Marks, patience: float) -> Copied:
    if known is None:
        late = _("no answer within %(seconds)d s") % {"seconds": patience}
        return replace(peer, problem=late)
    if isinstance(known, Exception):
        return replace(peer, problem=reason_of(known))
    return replace(peer, knows_more=is_ahead(known, *present(home)))


def _known(declared: Regions, patience: float) -> dict[str, Marks | Exception]:
    """Return the marks of this region from the peers that answer in time.

    Each is asked in a thread, because a statement's timeout doesn't limit the connecting.
    """
    known: dict[str, Marks | Exception] = {}
    name = tenant()

    def ask(peer: Regions) -> None:
        try:
            with acting_for(name):
                known.update(known_by(peer))
        finally:
            connections.close_all()

    threads = []
    until = time.monotonic() + patience
    for name, alias in declared.peers.items():
        peer = Regions(declared.own, {name: alias})
        # A hanging daemon thread doesn't stop the process from ending.
        threads.append(threading.Thread(target=ask, args=(peer,), daemon=True, name=_THREAD))
        threads[-1].start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return dict(known)


def findings(using: str) -> Iterator[Finding | GaugeValue]:
    """Yield missing publications and copies, and the age of each. Asks no other region."""
    problems = list(region_problems(needed=False))
    for problem in problems:
        text = f"{problem} ({_('%(command)s says more') % {'command': 'manage.py check'}})"
        yield _wrong("settings", text, "manage.py check")
    if problems:
        return
    exchange = exchanged(using)
    if not exchange.region:
        return
    yield from _if_late(exchange.region, exchange.published, f"{_COMMAND} upkeep publish")
    for peer in exchange.peers:
        yield from _if_late(peer.region, peer.lag, f"{_COMMAND} upkeep pull")
    stranger = _("counted here, but missing in %(setting)s: add it, unless it was removed")
    for name in exchange.strangers:
        text = stranger % {"setting": "COUNTERS_REGIONS"}
        yield Finding(f"region {name}", "", 0, 0, text, warns=True)
    for name, seconds in exchange.seconds.items():
        if seconds is not None:
            yield GaugeValue(PUBLISH_AGE if name == exchange.region else LAG, (name,), seconds)


def inquiries(using: str) -> Iterator[Finding]:
    """Yield findings of other regions about this one: whether it was restored from a backup."""
    if any(region_problems(needed=False)):
        return
    exchange = inquired(exchanged(using), using)
    for peer in exchange.peers:
        if peer.knows_more:
            more = _(
                "%(region)s has more of its counts than itself, so it was restored from a backup: "
                "run %(command)s"
            )
            command = f"{_COMMAND} regions fence"
            text = more % {"region": peer.region, "command": command}
            yield _wrong(f"region {exchange.region}", text, command)
        elif peer.problem:
            text = _("unavailable: %(reason)s") % {"reason": peer.problem}
            yield Finding(f"region {peer.region}", "", 0, 0, text, warns=True)


def _wrong(subject: str, text: str, command: str) -> Finding:
    """Return a finding that needs a person."""
    return Finding(subject, "", 0, 0, text, needed=True, command=command)


def _if_late(region: str, age: timedelta | None, command: str) -> Iterator[Finding]:
    if age is None:
        text = _("%(command)s never ran") % {"command": command}
        yield _wrong(f"region {region}", text, command)
    elif age > BEHIND:
        values = {"command": command, "seconds": age.total_seconds()}
        text = _("%(command)s last ran %(seconds)d s ago") % values
        yield _wrong(f"region {region}", text, command)
