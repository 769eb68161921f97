"""Stock between regions: incoming stock arrives, and a region that has little is sent more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from django.db import transaction

from django_counters.exceptions import (
    CeilingExceeded,
    CounterOverflow,
    InsufficientCount,
    InvalidDelta,
)
from django_counters.regions import sent_key, sent_to
from django_counters.registry import registry
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.regions import Of, SqlRegions
from django_counters.tables import CounterIncident
from django_counters.types import key_range, why_no_key
from django_counters.write.change import named
from django_counters.write.pipeline import change_many

# Of how many counters stock moves in one transaction, in which no other process sells them.
_STEP = 100
# How many keys of other regions an incident names.
MOST_TOLD = 20
# A stock that cannot take what was sent to it.
_REFUSALS = (CeilingExceeded, CounterOverflow, InsufficientCount, InvalidDelta)


class Busy(Exception):
    """Another process does it at this moment, or has ended this incarnation."""


def stocks() -> Iterator[tuple[str, str]]:
    """From which key on and before which one the counters of each namespace with a stock are."""
    for name, policy in registry.policies().items():
        if policy.has_stock:
            yield key_range(name)


def there_is_stock() -> bool:
    """Whether any namespace has a stock in each region."""
    return any(stocks())


@contextmanager
def alone(of: Of, life: str, using: str) -> Iterator[SqlRegions]:
    """A transaction that no other process has in this region: it holds the clock.

    Raises:
        Busy: another process has it.
    """
    store = registry.regions(using)
    with store.transaction():
        held = registry.positions(using).hold(of.source, of.part)
        if held is None or held.timeline != life:
            raise Busy
        # Statements that follow see what was committed before the clock was held.
        yield store


def receive(of: Of, life: str, using: str) -> dict[str, int]:
    """Let what was sent to this region arrive, and say how much came from each region.

    The stock grows, and the amount on the way falls, in one transaction for some counters. Nothing
    arrives twice, because no other process holds the clock meanwhile. Where one does, the rest
    arrives there.

    Other regions may say anything: only counters with a stock get something. The rest stays on the
    way, and is in an incident.
    """
    came: dict[str, int] = {}
    refused: dict[str, str] = {}
    (low, high), more = sent_to(*of), True
    with suppress(Busy):
        while more:
            with alone(of, life, using) as store:
                due = store.above_zero(low, high, _STEP)
                _receive(due, using, came, refused)
            more = len(due) == _STEP
            # No key has a character before that one.
            low = f"{max(due)}!" if more else low
    if refused:
        told = dict(sorted(refused.items())[:MOST_TOLD])
        detail = {"reason": "cannot arrive", "counters": told, "number": len(refused)}
        record(CounterIncident.Kind.QUARANTINED, "stock from regions", detail, using)
    return came


def _receive(
    due: Mapping[str, int], using: str, came: dict[str, int], refused: dict[str, str]
) -> None:
    """Receive some stock, and note what cannot be received, and why."""
    arrivals: list[tuple[str, str, str, int]] = []
    for key, amount in due.items():
        sender, _, stock = key.partition("<")[2].partition(":")
        if why := why_no_key(stock):
            refused[key] = why
        elif not registry.policy(stock).has_stock:
            refused[key] = f"{stock!r} has no stock of its own in this region"
        else:
            arrivals.append((key, sender, stock, amount))
    try:
        _arrive(arrivals, using)
    except _REFUSALS:
        # One of them must not be in the way of the others.
        for one in tuple(arrivals):
            try:
                _arrive([one], using)
            except _REFUSALS as error:
                refused[one[0]] = str(error)
                arrivals.remove(one)
    for _, sender, _, amount in arrivals:
        came[sender] = came.get(sender, 0) + amount


def _arrive(arrivals: Sequence[tuple[str, str, str, int]], using: str) -> None:
    """Add to stocks what is on the way to them, all or none."""
    deltas: dict[str, int] = {}
    for key, _, stock, amount in arrivals:
        deltas[key] = -amount
        deltas[stock] = deltas.get(stock, 0) + amount
    with transaction.atomic(using):
        change_many(deltas, 1, using)


def top_up(of: Of, life: str, peers: Sequence[Of], using: str) -> dict[str, int]:
    """Send stock to regions that have less than ``TOP_UP``, and say how much to each.

    Only the region that has the most gives, as far as it knows. Stock on the way counts as arrived.

    Args:
        of: this region.
        life: of its server.
        peers: the others.
        using: the database.
    """
    gave: dict[str, int] = {}
    with suppress(Busy):
        for name, policy in registry.policies().items():
            if policy.top_up is not None:
                _top_up(name, policy.top_up, of, life, peers, using, gave)
    return gave


def _top_up(
    namespace: str,
    below: int,
    of: Of,
    life: str,
    peers: Sequence[Of],
    using: str,
    gave: dict[str, int],
) -> None:
    """Do so for one namespace."""
    (low, high), more = key_range(namespace), True
    while more:
        with alone(of, life, using) as store:
            keys = store.poor(of.region, 1 + len(peers), below, low, high, _STEP)
            for key in keys:
                _share(key, of, peers, below, using, gave)
        more = len(keys) == _STEP
        # No key has a character before that one.
        low = f"{keys[-1]}!" if more else low


def _share(
    key: str, of: Of, peers: Sequence[Of], below: int, using: str, gave: dict[str, int]
) -> None:
    """Send one stock to those that have less, as long as it is there."""
    for to, amount in _shares_of(key, of, peers, registry.regions(using), below):
        if not _sent(key, amount, of.region, to, using):
            return
        gave[to.region] = gave.get(to.region, 0) + amount


def _sent(key: str, amount: int, sender: str, to: Of, using: str) -> bool:
    """Send stock; False where it was sold meanwhile."""
    try:
        change_many({key: -amount, sent_key(key, *to, sender): amount}, 1, using)
    except InsufficientCount:
        return False
    return True


def _shares_of(
    key: str, of: Of, peers: Sequence[Of], store: SqlRegions, below: int
) -> list[tuple[Of, int]]:
    """How much of one stock each region is to be sent."""
    mine = store.values([key], of.region, own=True).get(key, 0)
    senders = [of.region, *(peer.region for peer in peers)]
    theirs = {peer.region: _stock(key, peer, senders, store) for peer in peers}
    given = shares(mine, theirs, below)
    return [(peer, given[peer.region]) for peer in peers if peer.region in given]


def _stock(key: str, peer: Of, senders: Sequence[str], store: SqlRegions) -> int:
    """The present and incoming stock of a region, as far as this one knows."""
    coming = [sent_key(key, *peer, sender) for sender in senders if sender != peer.region]
    on_the_way = store.values(coming, None, own=True)
    return store.values([key], peer.region, own=False).get(key, 0) + sum(on_the_way.values())


def shares(mine: int, theirs: Mapping[str, int], below: int) -> dict[str, int]:
    """How much each region is sent: the poorest first, half of the surplus of this one.

    Nothing, where another one has more. This region keeps ``below``.
    """
    found: dict[str, int] = {}
    if any(stock > mine for stock in theirs.values()):
        return found
    for name, stock in sorted(theirs.items(), key=lambda item: (item[1], item[0])):
        amount = min((mine - stock) // 2, mine - below)
        if stock < below and amount > 0:
            found[name] = amount
            mine -= amount
    return found


def freeze(store: SqlRegions, region: str, using: str) -> tuple[int, int]:
    """Take all stock away from a region that was restored; how many counters, and how much.

    Its backup says more than it has, because it does not know what was sold since. A person decides
    what is left, by an adjustment.
    """
    counters = total = 0
    for scope in stocks():
        for low, high in store.ranges(*scope):
            for key, amount in store.stock(low, high).items():
                _take_away(key, region, using)
                counters, total = counters + 1, total + amount
            # What it has here is all that it has: nothing was counted before.
            store.clear(region, low, high)
    return counters, total


def _take_away(key: str, region: str, using: str) -> None:
    from django_counters.adjustments.adjustment import adjust

    # This needs no approval: giving it back does.
    ref = named(key, using)._replace(approve_above=None)
    reason = f"The region {region} was restored. Give back what is left of this stock."
    adjust(ref, to=0, reason=reason, actor="counters regions fence")
