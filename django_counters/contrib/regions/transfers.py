"""Sends stock between regions, on call and by ``TOP_UP``.

The sender's stock falls, and its sent amount grows. The sent amount is also a regional counter: the
sender adds to it, the receiver subtracts the arrived stock, and its value is the stock on the way.
So it is copied, and comes back after a restore, like any other counter. No stock can be lost or
arrive twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

from django.db import transaction

from django_counters.contrib.regions.declared import Regions, has_stock, regions, sent_key, sent_to
from django_counters.contrib.regions.errors import RegionAway, UnsupportedRegions
from django_counters.contrib.regions.marks import living, marks_of, present
from django_counters.contrib.regions.reading import key_of
from django_counters.contrib.regions.sql import CLOSED, Incarnation, SqlRegions, store_of
from django_counters.errors import CeilingExceeded, CounterOverflow, InsufficientCount, InvalidDelta
from django_counters.registry import registry
from django_counters.stores.sql.incidents import record
from django_counters.tables import CounterIncident
from django_counters.tables.schema import COUNTERS
from django_counters.tokens import Token
from django_counters.twins import alters_data, twin
from django_counters.types import Result, check_integer, check_key, key_range, result_of, why_no_key
from django_counters.write.changes import named
from django_counters.write.pipeline import change_many

# The counters whose stock moves in one transaction. Meanwhile no other process can sell from them.
_STEP = 100
# The most keys of other regions in an incident.
MOST_TOLD = 20
# The errors of a stock that can't grow by the sent amount.
_REFUSALS = (CeilingExceeded, CounterOverflow, InsufficientCount, InvalidDelta)


class TransferBusy(Exception):
    """Another process is doing the same, or has ended this incarnation."""


def stocks() -> Iterator[tuple[str, str]]:
    """Yield the range of keys of each namespace with a stock."""
    for name, policy in registry.policies().items():
        if has_stock(policy):
            yield key_range(name)


def there_is_stock() -> bool:
    """Return whether any namespace declares a stock for each region."""
    return any(stocks())


@contextmanager
def alone(of: Incarnation, life: str, using: str) -> Iterator[SqlRegions]:
    """Open a transaction that locks this region's clock, so that one process at a time has it.

    Raises:
        Busy: another process has the clock.
    """
    store = store_of(using)
    with store.transaction():
        held = registry.positions(using).hold(of.source, of.part)
        if held is None or held.timeline != life:
            raise TransferBusy
        # The following statements see all commits before the clock was locked.
        yield store


def receive(of: Incarnation, life: str, using: str) -> dict[str, int]:
    """Receive stock that was sent to this region; return {region: amount}.

    The stock grows and the amount on the way falls in one transaction, for a step of counters.
    Nothing arrives twice, because this process has locked the clock. If another process has it,
    the rest arrives there.

    Other regions may send any key. Only counters with a stock receive. The rest stays on the way,
    and is in an incident.
    """
    came: dict[str, int] = {}
    refused: dict[str, str] = {}
    (low, high), more = sent_to(*of), True
    with suppress(TransferBusy):
        while more:
            with alone(of, life, using) as store:
                due = store.above_zero(low, high, _STEP)
                _receive(due, using, came, refused)
            more = len(due) == _STEP
            # "!" is the first character that keys can have.
            low = f"{max(due)}!" if more else low
    if refused:
        shown = dict(sorted(refused.items())[:MOST_TOLD])
        detail = {"reason": "cannot arrive", "counters": shown, "number": len(refused)}
        record(CounterIncident.Kind.QUARANTINED, "stock from regions", detail, using)
    return came


def _receive(
    due: Mapping[str, int], using: str, came: dict[str, int], refused: dict[str, str]
) -> None:
    """Receive a step of stock; add the reason to ``refused`` for stock that can't arrive."""
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
        # One refusal must not stop the others.
        for arrival in tuple(arrivals):
            try:
                _arrive([arrival], using)
            except _REFUSALS as error:
                refused[arrival[0]] = str(error)
                arrivals.remove(arrival)
    for _, sender, _, amount in arrivals:
        came[sender] = came.get(sender, 0) + amount


def _arrive(arrivals: Sequence[tuple[str, str, str, int]], using: str) -> None:
    """Add the amounts on the way to the stocks, all or none."""
    deltas: dict[str, int] = {}
    for key, _, stock, amount in arrivals:
        deltas[key] = -amount
        deltas[stock] = deltas.get(stock, 0) + amount
    with transaction.atomic(using):
        change_many(deltas, using)


def top_up(of: Incarnation, life: str, peers: Sequence[Incarnation], using: str) -> dict[str, int]:
    """Send stock to regions that have less than ``TOP_UP``; return {region: amount}.

    Only the region with the most stock, as of the last copies, sends. Stock on the way counts as
    arrived.

    Args:
        of: this region.
        life: the life of its server.
        peers: the others.
        using: the database.
    """
    gave: dict[str, int] = {}
    with suppress(TransferBusy):
        for name, policy in registry.policies().items():
            below = policy.options.get("top_up")
            if below is not None:
                _top_up(name, below, of, life, peers, using, gave)
    return gave


def _top_up(
    namespace: str,
    below: int,
    of: Incarnation,
    life: str,
    peers: Sequence[Incarnation],
    using: str,
    gave: dict[str, int],
) -> None:
    """Send stock of one namespace; see `top_up`."""
    (low, high), more = key_range(namespace), True
    while more:
        with alone(of, life, using) as store:
            keys = store.poor(of.region, 1 + len(peers), below, low, high, _STEP)
            for key in keys:
                _share(key, of, peers, below, using, gave)
        more = len(keys) == _STEP
        # "!" is the first character that keys can have.
        low = f"{keys[-1]}!" if more else low


def _share(
    key: str,
    of: Incarnation,
    peers: Sequence[Incarnation],
    below: int,
    using: str,
    gave: dict[str, int],
) -> None:
    """Send one stock to regions that have less, while it lasts."""
    for to, amount in _shares_of(key, of, peers, store_of(using), below):
        try:
            change_many({key: -amount, sent_key(key, *to, of.region): amount}, using)
        except InsufficientCount:
            # It was sold concurrently.
            return
        gave[to.region] = gave.get(to.region, 0) + amount


def _shares_of(
    key: str, of: Incarnation, peers: Sequence[Incarnation], store: SqlRegions, below: int
) -> list[tuple[Incarnation, int]]:
    """Return the amount of one stock to send to each region."""
    mine = store.values([key], of.region, own=True).get(key, 0)
    senders = [of.region, *(peer.region for peer in peers)]
    theirs = {peer.region: _stock(key, peer, senders, store) for peer in peers}
    amounts = shares(mine, theirs, below)
    return [(peer, amounts[peer.region]) for peer in peers if peer.region in amounts]


def _stock(key: str, peer: Incarnation, senders: Sequence[str], store: SqlRegions) -> int:
    """Return a region's present and incoming stock, as of the last copies."""
    coming = [sent_key(key, *peer, sender) for sender in senders if sender != peer.region]
    on_the_way = store.values(coming, None, own=True)
    return store.values([key], peer.region, own=False).get(key, 0) + sum(on_the_way.values())


def shares(mine: int, theirs: Mapping[str, int], below: int) -> dict[str, int]:
    """Return the amount to send to each region: the poorest first, half of the difference.

    Nothing, if another region has more. This region keeps ``below``.
    """
    amounts: dict[str, int] = {}
    if any(stock > mine for stock in theirs.values()):
        return amounts
    for name, stock in sorted(theirs.items(), key=lambda item: (item[1], item[0])):
        amount = min((mine - stock) // 2, mine - below)
        if stock < below and amount > 0:
            amounts[name] = amount
            mine -= amount
    return amounts


def freeze(store: SqlRegions, region: str, using: str) -> tuple[int, int]:
    """Set all stock of a restored region to zero; return the number of counters and their sum.

    Its backup lacks the later sales, so its stock is too large. A person sets the remaining stock
    by an adjustment.
    """
    from django_counters.adjustments.adjustment import adjust

    reason = f"The region {region} was restored. Adjust this stock to the remaining quantity."
    counters = total = 0
    for scope in stocks():
        for low, high in store.ranges(*scope):
            for key, amount in store.stock(low, high).items():
                # This needs no approval. The later adjustment does.
                ref = named(key, using)._replace(approve_above=None)
                adjust(ref, to=0, reason=reason, actor="counters regions fence")
                counters, total = counters + 1, total + amount
            # The total is now all of its stock, so the entries must be zero.
            store.clear(region, low, high)
    return counters, total


@alters_data
def transfer(
    counter: Any,
    amount: int,
    *,
    to: str,
    token: str | UUID | Token | None = None,
    using: str | None = None,
) -> Result:
    """Send stock to another region, in the caller's transaction; return the rest.

    The namespace declares ``REGIONAL`` and ``FLOOR: 0``: each region takes from its own stock. This
    region's stock falls at once. The other one grows after the next ``publish`` here and ``pull``
    there. Until then the stock can't be taken. So all regions together never take more than was put
    in, even if they can't reach each other.

    Args:
        counter: a key, or the attribute of a `RegionalCounter`.
        amount: an integer above zero.
        to: the name of the other region.
        token: sends once, however often the call is repeated; see `CounterManager.increment`.
        using: the database.

    Raises:
        InsufficientCount: this region has less.
        UnsupportedRegions: the namespace has no such stock, or the region doesn't exist.
        RegionAway: this server was started, and hasn't published since: it may have been restored
            from a backup.
        InvalidKey, InvalidDelta: it isn't a key (of at most 100 characters, because the names of
            regions are added), or ``amount`` isn't an integer above zero.
        InvalidToken, TokenConflict, TokenExpired: as `CounterManager.increment`.
    """
    name, alias = key_of(counter), COUNTERS.writing(using)
    number = check_integer(amount)
    if number < 1:
        raise InvalidDelta(delta=amount, reason="the amount to send must be above zero")
    declared = _declared(name, to)
    if living(declared.own, alias) is None:
        # It may have been restored, with too much stock, and hasn't asked the others yet.
        reason = "its server was started and it has not published since"
        raise RegionAway(peer=declared.own, region=declared.own, reason=reason)
    marks = marks_of(to, alias)
    last, mark = present(marks)
    if not marks or mark.timeline == CLOSED:
        reason = "its present incarnation was never copied. Run counters upkeep pull"
        raise RegionAway(peer=to, region=declared.own, reason=reason)
    sent = check_key(sent_key(name, to, last, declared.own))
    results = change_many({name: -number, sent: number}, alias, token)
    return result_of(results[name], replayed=results.replayed)


def _declared(key: str, to: str) -> Regions:
    """Return the declared regions; raise `UnsupportedRegions` if nothing can be sent."""
    if not has_stock(registry.policy(key)):
        reason = "its namespace doesn't declare REGIONAL and a FLOOR of 0"
        raise UnsupportedRegions(key=key, reason=reason)
    declared = regions()
    if to not in declared.peers:
        known = ", ".join(declared.peers) or "none"
        reason = f"COUNTERS_REGIONS has no region {to!r}. It has: {known}"
        raise UnsupportedRegions(key=key, reason=reason)
    return declared


atransfer = twin(transfer)
