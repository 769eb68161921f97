"""Stock between regions: it is sent and arrives, and a region that has little is sent more.

Stock of a region falls, and its sent amount grows. The sent amount is a regional counter, too: the
sender adds to it, the receiver subtracts what has arrived, and its value is the stock on the way.
So it is copied, and comes back after a restore, as any other counter. No message can be lost or
arrive twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

from django.db import transaction

from django_counters.contrib.regions.declared import (
    Regions,
    has_stock,
    regions,
    sent_key,
    sent_to,
)
from django_counters.contrib.regions.errors import RegionAway, UnsupportedRegions
from django_counters.contrib.regions.marks import living, marks_of, present
from django_counters.contrib.regions.reading import key_of
from django_counters.contrib.regions.sql import CLOSED, Of, SqlRegions, store_of
from django_counters.exceptions import (
    CeilingExceeded,
    CounterOverflow,
    InsufficientCount,
    InvalidDelta,
)
from django_counters.registry import registry
from django_counters.stores.sql.batches import record
from django_counters.tables import CounterIncident
from django_counters.tables.standing import COUNTERS
from django_counters.tokens import Token
from django_counters.twins import alters_data, twin
from django_counters.types import check_integer, check_key, key_range, why_no_key
from django_counters.values import Result, result_of
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
        if has_stock(policy):
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
    store = store_of(using)
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
        elif not has_stock(registry.policy(stock)):
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
        change_many(deltas, using)


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
            below = policy.options.get("top_up")
            if below is not None:
                _top_up(name, below, of, life, peers, using, gave)
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
    for to, amount in _shares_of(key, of, peers, store_of(using), below):
        if not _sent(key, amount, of.region, to, using):
            return
        gave[to.region] = gave.get(to.region, 0) + amount


def _sent(key: str, amount: int, sender: str, to: Of, using: str) -> bool:
    """Send stock; False where it was sold meanwhile."""
    try:
        change_many({key: -amount, sent_key(key, *to, sender): amount}, using)
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


@alters_data
def transfer(
    counter: Any,
    amount: int,
    *,
    to: str,
    token: str | UUID | Token | None = None,
    using: str | None = None,
) -> Result:
    """Send stock to another region, in the caller's transaction, and return what is left here.

    The namespace declares ``REGIONAL`` and ``FLOOR: 0``: each region takes from its own stock. This
    one falls at once. The other one grows when it has copied that, after the next ``publish`` here
    and ``pull`` there. Until then the stock can't be taken. So all regions together never give more
    than there was, whether or not they can reach each other.

    Args:
        counter: a key, or the attribute of a `RegionalCounter`.
        amount: an integer above zero.
        to: the name of the other region.
        token: sends once, however often the call is repeated; see `CounterManager.increment`.
        using: the database.

    Raises:
        InsufficientCount: this region has less.
        UnsupportedRegions: the namespace has no such stock, or there is no such region.
        RegionAway: this server was started, and has not published since: it may have been restored
            from a backup.
        InvalidKey, InvalidDelta: it isn't a key (100 characters are left for one beside the names
            of regions), or ``amount`` isn't an integer above zero.
        InvalidToken, TokenConflict, TokenExpired: as `CounterManager.increment`.
    """
    name, alias = key_of(counter), COUNTERS.writing(using)
    number = check_integer(amount)
    if number < 1:
        raise InvalidDelta(delta=amount, reason="only what is above zero can be sent")
    declared = _declared(name, to)
    _refuse_unfenced(declared.own, alias)
    marks = marks_of(to, alias)
    last, mark = present(marks)
    if not marks or mark.timeline == CLOSED:
        reason = "nothing was copied of its present incarnation: run counters upkeep pull"
        raise RegionAway(peer=to, region=declared.own, reason=reason)
    sent = check_key(sent_key(name, to, last, declared.own))
    found = change_many({name: -number, sent: number}, alias, token)
    return result_of(found[name], replayed=found.replayed)


def _declared(key: str, to: str) -> Regions:
    """The declaration; an error where nothing can be sent."""
    if not has_stock(registry.policy(key)):
        reason = "its namespace does not declare REGIONAL and a FLOOR of 0"
        raise UnsupportedRegions(key=key, reason=reason)
    declared = regions()
    if to not in declared.peers:
        known = ", ".join(declared.peers) or "none"
        reason = f"there is no other region {to!r}; there are: {known}"
        raise UnsupportedRegions(key=key, reason=reason)
    return declared


def _refuse_unfenced(region: str, using: str) -> None:
    """Refuse where the server was started: it may have been restored, and have less than it says.

    Raises:
        RegionAway: it has not asked the others yet.
    """
    if living(region, using) is None:
        reason = "its server was started and it has not published since"
        raise RegionAway(peer=region, region=region, reason=reason)


atransfer = twin(transfer)
