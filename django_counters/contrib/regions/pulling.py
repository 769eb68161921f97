"""Copies the publications of other regions, and receives stock. Has the jobs of a region."""

from __future__ import annotations

from dataclasses import asdict

from django.db import DEFAULT_DB_ALIAS, Error

from django_counters.contrib.regions.declared import Regions, regions
from django_counters.contrib.regions.errors import RegionAway
from django_counters.contrib.regions.marks import (
    IncarnationMark,
    Peer,
    is_ahead,
    marks_of,
    present,
)
from django_counters.contrib.regions.peers import peers_of
from django_counters.contrib.regions.publishing import Exchanged, greeted, publish, reason_of
from django_counters.contrib.regions.sql import CLOSED, COMPLETE, Incarnation, store_of
from django_counters.contrib.regions.transfers import MOST_TOLD, receive, there_is_stock, top_up
from django_counters.errors import CounterError
from django_counters.features import Done
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.positions import Moved
from django_counters.tables import CounterIncident
from django_counters.types import why_no_key

# Seconds after which the server ends the transaction of a copying process that stands still.
_LEASE = 60.0


def pull(using: str = DEFAULT_DB_ALIAS) -> dict[str, Exchanged]:
    """Copy the new publications of other regions; return the result of each region.

    Each page is one transaction: the entries and the position. An unavailable region is left out,
    and its ``problem`` is set. Then stock arrives that was sent to this region. Any number can run
    at once, and one of them works on each region.

    Raises:
        InvalidConfiguration: this project isn't a region.
        RegionRestored: as `publish`. No stock arrives.
    """
    declared, results = regions(), dict[str, Exchanged]()
    for name, peer in peers_of(declared).items():
        done = results[name] = Exchanged()
        try:
            _copy(name, peer, declared, using, done)
        except Moved:
            done.busy = True
        except (Error, CounterError) as error:
            done.problem = reason_of(error)
    if there_is_stock():
        _move_stock(declared, results, using)
    return results


def _move_stock(declared: Regions, results: dict[str, Exchanged], using: str) -> None:
    """Receive stock that was sent here, and send some to regions with little.

    First asks the others whether this region was restored: its stock may have arrived before.
    """
    try:
        of, life = greeted(declared, store_of(using), using)
        for name, amount in receive(of, life, using).items():
            results.setdefault(name, Exchanged()).received += amount
        peers = [
            Incarnation(name, max(marks_of(name, using), default=1)) for name in declared.peers
        ]
        for name, amount in top_up(of, life, peers, using).items():
            results[name].sent += amount
    except RegionAway as error:
        results[error.peer].problem = results[error.peer].problem or error.reason


def _copy(name: str, peer: Peer, declared: Regions, using: str, done: Exchanged) -> None:
    """Copy all pages of one region, and record the time when all of it was here."""
    # In this order: all marks here were there before.
    known, there = marks_of(name, using), peer.marks(name)
    # Also those of its former names.
    others = {declared.own, *declared.peers}
    homes = {other: marks for other, marks in peer.homes().items() if other not in others}
    for region, marks in {name: there, **homes}.items():
        for incarnation in sorted(marks):
            while _pulled(Incarnation(region, incarnation), peer, using, done):
                pass
    number, mark = present(there)
    if mark.timeline != CLOSED and is_ahead(known, number, mark):
        done.problem = f"{name} was restored from a backup and needs a fence"
    if there and not (done.busy or done.problem):
        registry.positions(using).touch(COMPLETE, name)


def _pulled(of: Incarnation, peer: Peer, using: str, done: Exchanged) -> bool:
    """Copy one page; return whether there may be more."""
    positions, here = registry.positions(using), store_of(using)
    positions.make(of.source, of.part)
    with here.transaction():
        held = positions.hold(of.source, of.part, _LEASE)
        if held is None:
            done.busy = True
            return False
        page = peer.page(of, IncarnationMark.of(held).position)
        if page is None:
            return False
        if page.life == CLOSED:
            # The incarnation has ended: its earlier pages are invalid.
            positions.label(of.source, of.part, CLOSED)
        elif held.timeline not in ("", page.life):
            # Its server was started. It asks all peers before its next publication.
            done.problem = f"{of.region} was started, and has not published since"
            return False
        entries = [one for one in page.entries if not why_no_key(one[0])]
        here.store(of, entries)
        if len(entries) < len(page.entries):
            # An invalid key must not stop the entries after it.
            keys = sorted(ascii(key) for key, _, _ in page.entries if why_no_key(key))
            detail = {"reason": "no keys", "keys": keys[:MOST_TOLD], "number": len(keys)}
            record(CounterIncident.Kind.QUARANTINED, of.source, detail, using)
        after = f"{page.last}/{page.clock}"
        positions.move([Move(of.source, of.part, held.position, after, page.life)])
    done.entries += len(page.entries)
    done.pages += 1
    return True


# The jobs.


def publish_job(using: str) -> Done:
    """Publish the counts of this region, for other regions to copy."""
    done = publish(using)
    busy = "; busy: another process publishes" if done.busy else ""
    data = {"database": using, **asdict(done)}
    problems = [done.problem] if done.problem else []
    return Done(f"{done.entries} entries published{busy}", data, problems)


def pull_job(using: str) -> Done:
    """Copy the counts of other regions."""
    results, lines = pull(using), []
    for name, done in results.items():
        busy = "; busy: another process copies" if done.busy else ""
        moved = [f"; {done.received} received"] if done.received else []
        moved += [f"; {done.sent} sent"] if done.sent else []
        lines.append(f"{name}: {done.entries} entries copied{''.join(moved)}{busy}")
    copied = {name: asdict(done) for name, done in results.items()}
    problems = [f"{name}: {done.problem}" for name, done in results.items() if done.problem]
    return Done("\n".join(lines), {"database": using, "regions": copied}, problems)
