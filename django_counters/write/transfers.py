"""Stock that one region sends to another one: its own stock falls, and its sent amount grows.

The sent stock is a regional counter, too: the sender adds to it, the receiver subtracts the arrived
stock, and its value is the stock on the way. So it is copied, and comes back after a restore, as
any other counter; no message can be lost or arrive twice.
"""

from __future__ import annotations

from django_counters.exceptions import InvalidDelta, RegionAway, UnsupportedRegions
from django_counters.regions import Regions, regions, sent_key
from django_counters.registry import registry
from django_counters.stores.sql.regions import CLOSED
from django_counters.tables.standing import COUNTERS
from django_counters.types import check_integer, check_key
from django_counters.values import Result, result_of
from django_counters.write.marks import living, marks_of, present
from django_counters.write.pipeline import change_many


def transfer(key: object, amount: object, to: str, token: object, using: str | None) -> Result:
    """Send stock to another region; see `CounterManager.transfer`."""
    name, alias = check_key(key), COUNTERS.writing(using)
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
    found = change_many({name: -number, sent: number}, 1, alias, token)
    return result_of(found[name], replayed=found.replayed)


def _declared(key: str, to: str) -> Regions:
    """The declaration; an error where nothing can be sent."""
    if not registry.policy(key).has_stock:
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
