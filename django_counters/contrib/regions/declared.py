"""The settings ``COUNTERS_REGION…``, and what ``REGIONAL`` and ``TOP_UP`` can't stand beside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from django_counters.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from django_counters.conf import Policy

#: How many characters a secret has at least.
SHORTEST_SECRET = 32
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
#: The namespace of what regions have sent to each other. Only this app counts in it.
SENT = "counters.sent"
# What one region cannot decide or tell for all of them.
_AGAINST = {
    "HISTORY": "it records the totals of one region",
    "BUFFER": "files and streams may bring again what a restored region has published",
    "API": "it shows the values of one region",
}


class Regions(NamedTuple):
    """This region, and the others.

    Attributes:
        own: the name of this one.
        peers: the alias of the database of each other one, or its address, by its name.
    """

    own: str
    peers: Mapping[str, str]


def is_regional(policy: Policy) -> bool:
    """Return whether values of a namespace are those of all regions together."""
    return bool(policy.options.get("regional"))


def has_stock(policy: Policy) -> bool:
    """Return whether each region takes from a stock of its own."""
    return is_regional(policy) and policy.bounds.floor is not None


def regions() -> Regions:
    """The declaration.

    Raises:
        InvalidConfiguration: the settings are wrong, or there are none.
    """
    for problem in region_problems(needed=True):
        raise InvalidConfiguration(problem=problem)
    return Regions(str(_own()), dict(_peers()))


def region_secrets() -> tuple[str, ...]:
    """What regions know that reach each other over HTTP: they sign with the first one."""
    return tuple(_secrets())


def are_there() -> bool:
    """Whether this is a region at all."""
    return bool(_own())


def sent_to(region: str, incarnation: int) -> tuple[str, str]:
    """The range of keys of the counters of increments on the way to a region.

    Stock sent to an incarnation that has ended never arrives: it may have arrived before
    the region was restored.
    """
    # "=" follows "<".
    return f"{SENT}:{region}.{incarnation}<", f"{SENT}:{region}.{incarnation}="


def sent_key(key: str, region: str, incarnation: int, sender: str) -> str:
    """The counter of stock on the way from one region to another one."""
    return f"{sent_to(region, incarnation)[0]}{sender}:{key}"


def elsewhere() -> frozenset[str]:
    """The databases that belong to other regions, as far as the settings can be understood."""
    peers = _peers()
    return frozenset(map(str, peers.values())) if isinstance(peers, Mapping) else frozenset()


def region_problems(*, needed: bool) -> Iterator[str]:
    """Say what is wrong with the settings; ``needed``: whether there have to be some."""
    own, peers = _own(), _peers()
    if own is None and not peers and not needed:
        return
    yield from _name_problems("COUNTERS_REGION", own)
    if not isinstance(peers, Mapping):
        yield "COUNTERS_REGIONS is a dictionary: the database of each other region by its name."
        return
    for name, place in peers.items():
        yield from _name_problems("COUNTERS_REGIONS", name)
        if name == own:
            yield f"COUNTERS_REGIONS: {name!r} is this region itself."
        yield from _place_problems(name, place)
    if len(set(map(str, peers.values()))) < len(peers):
        yield "COUNTERS_REGIONS: each region has a database of its own."
    yield from _secret_problems(needed=any(map(is_address, peers.values())))


def is_address(place: object) -> bool:
    """Whether a region is reached over HTTP, and not in a database of that alias."""
    return isinstance(place, str) and "://" in place


def _place_problems(name: object, place: object) -> Iterator[str]:
    """A region is a database or an address; ``name``: its name."""
    if not is_address(place):
        if place not in settings.DATABASES:
            yield f"COUNTERS_REGIONS: {name!r} names no database of DATABASES, and no address."
        return
    try:
        parts = urlsplit(str(place))
        wrong = not _is_plain(str(place), parts)
    except ValueError:
        yield f"COUNTERS_REGIONS: the address of {name!r} is none."
        return
    if wrong:
        yield f"COUNTERS_REGIONS: the address of {name!r} is a host and a path, and nothing else."
    elif parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts)):
        yield f"COUNTERS_REGIONS: the address of {name!r} begins with https://."


def _is_plain(place: str, parts: SplitResult) -> bool:
    written = place.isascii() and place.isprintable() and " " not in place
    # A port that is none raises an error when it is asked for.
    return written and bool(parts.hostname) and parts.port != 0 and not set("@?#") & set(place)


def _is_loopback(parts: SplitResult) -> bool:
    """Whether a host is this machine."""
    if parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _secret_problems(*, needed: bool) -> Iterator[str]:
    """The secrets never stand in a message."""
    secrets = _secrets()
    if not isinstance(secrets, (list, tuple)):
        yield "COUNTERS_REGION_SECRETS is a list: the secret, and others that are accepted, too."
    elif not all(isinstance(one, str) and len(one) >= SHORTEST_SECRET for one in secrets):
        yield f"COUNTERS_REGION_SECRETS: each has {SHORTEST_SECRET} characters or more."
    elif needed and not secrets:
        yield "COUNTERS_REGION_SECRETS is missing: a region that has an address needs one."


def regional_problems(
    name: str, declared: Mapping[Any, Any], against: Mapping[str, str]
) -> Iterator[str]:
    """Say what ``REGIONAL`` cannot stand beside; ``against``: options of projections, and why."""
    if declared.get("REGIONAL") is not True:
        if declared.get("TOP_UP") is not None:
            yield "TOP_UP needs REGIONAL: stock comes from another region."
        return
    wrong = list(_conflicts(name, declared, {**against, **_AGAINST}))
    yield from wrong
    if not wrong and not are_there():
        yield "REGIONAL needs COUNTERS_REGION, the name of this region."


def _conflicts(name: str, declared: Mapping[Any, Any], against: Mapping[str, str]) -> Iterator[str]:
    if name == "default":
        yield "REGIONAL is for declared namespaces, whose keys can be found together."
    if declared.get("TOP_UP") is not None and declared.get("FLOOR") is None:
        yield "TOP_UP needs a FLOOR of 0: it moves what a region may take."
    if declared.get("FLOOR") not in (None, 0):
        yield "REGIONAL needs a FLOOR of 0, or none: each region keeps what it may take."
    for option, reason in against.items():
        if declared.get(option) is not None:
            yield f"REGIONAL cannot stand beside {option}: {reason}."


def _own() -> object:
    return getattr(settings, "COUNTERS_REGION", None)


def _peers() -> Any:
    return getattr(settings, "COUNTERS_REGIONS", None) or {}


def _secrets() -> Any:
    return getattr(settings, "COUNTERS_REGION_SECRETS", None) or ()


def _name_problems(setting: str, name: object) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{setting}: {name!r} is no name of up to 60 small letters, digits and hyphens."
