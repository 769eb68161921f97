"""The settings ``COUNTERS_REGION…``, and the options that exclude ``REGIONAL`` and ``TOP_UP``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from django_counters.errors import InvalidConfiguration

if TYPE_CHECKING:
    from django_counters.conf import Policy

#: The fewest characters of a secret.
SHORTEST_SECRET = 32
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
#: The namespace of stock that regions have sent to each other. Only this app counts in it.
SENT = "counters.sent"
# Options that one region can't serve for all of them.
_AGAINST = {
    "HISTORY": "it records the totals of one region",
    "BUFFER": "files and streams may repeat counts that a restored region has published",
    "API": "it shows the values of one region",
}


class Regions(NamedTuple):
    """This region and its peers.

    Attributes:
        own: the name of this region.
        peers: for the name of each other region, its database alias or its address.
    """

    own: str
    peers: Mapping[str, str]


def is_regional(policy: Policy) -> bool:
    """Return whether a namespace's values are the sums of all regions."""
    return bool(policy.options.get("regional"))


def has_stock(policy: Policy) -> bool:
    """Return whether each region has a stock of its own."""
    return is_regional(policy) and policy.bounds.floor is not None


def regions() -> Regions:
    """Return the declared regions.

    Raises:
        InvalidConfiguration: the settings are wrong or missing.
    """
    for problem in region_problems(needed=True):
        raise InvalidConfiguration(problem=problem)
    return Regions(str(_own()), dict(_peers()))


def region_secrets() -> tuple[str, ...]:
    """Return the shared secrets of regions over HTTP. The first one signs."""
    return tuple(_secrets())


def are_there() -> bool:
    """Return whether this project is a region."""
    return bool(_own())


def sent_to(region: str, incarnation: int) -> tuple[str, str]:
    """Return the range of keys of the counters of stock on the way to a region.

    Stock for an ended incarnation never arrives: it may have arrived before the region was
    restored.
    """
    # In the order of keys "=" follows "<".
    return f"{SENT}:{region}.{incarnation}<", f"{SENT}:{region}.{incarnation}="


def sent_key(key: str, region: str, incarnation: int, sender: str) -> str:
    """Return the key of the counter of stock on the way from one region to another."""
    return f"{sent_to(region, incarnation)[0]}{sender}:{key}"


def elsewhere() -> frozenset[str]:
    """Return the databases of other regions, as far as the settings are valid."""
    peers = _peers()
    return frozenset(map(str, peers.values())) if isinstance(peers, Mapping) else frozenset()


def region_problems(*, needed: bool) -> Iterator[str]:
    """Yield the problems of the settings; ``needed``: whether missing ones are a problem."""
    own, peers = _own(), _peers()
    if own is None and not peers and not needed:
        return
    yield from _name_problems("COUNTERS_REGION", own)
    if not isinstance(peers, Mapping):
        yield "COUNTERS_REGIONS must be a dictionary: {name of another region: its database}."
        return
    for name, place in peers.items():
        yield from _name_problems("COUNTERS_REGIONS", name)
        if name == own:
            yield f"COUNTERS_REGIONS: {name!r} is this region itself."
        yield from _place_problems(name, place)
    if len(set(map(str, peers.values()))) < len(peers):
        yield "COUNTERS_REGIONS: two regions have the same database. Each needs its own."
    yield from _secret_problems(needed=any(map(is_address, peers.values())))


def is_address(place: object) -> bool:
    """Return whether the text is an address, and not the alias of a database."""
    return isinstance(place, str) and "://" in place


def _place_problems(name: object, place: object) -> Iterator[str]:
    """Yield the problems of a region's database or address; ``name``: its name."""
    if not is_address(place):
        if place not in settings.DATABASES:
            yield f"COUNTERS_REGIONS: {name!r} is neither an alias of DATABASES nor an address."
        return
    try:
        parts = urlsplit(str(place))
        wrong = not _is_plain(str(place), parts)
    except ValueError:
        yield f"COUNTERS_REGIONS: the address of {name!r} is invalid."
        return
    if wrong:
        yield f"COUNTERS_REGIONS: the address of {name!r} must be only a host and a path."
    elif parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts)):
        yield f"COUNTERS_REGIONS: the address of {name!r} must begin with https://."


def _is_plain(place: str, parts: SplitResult) -> bool:
    written = place.isascii() and place.isprintable() and " " not in place
    # Reading an invalid port raises ValueError.
    return written and bool(parts.hostname) and parts.port != 0 and not set("@?#") & set(place)


def _is_loopback(parts: SplitResult) -> bool:
    """Return whether a host is this machine."""
    if parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _secret_problems(*, needed: bool) -> Iterator[str]:
    """Yield the problems of the secrets, without printing any."""
    secrets = _secrets()
    if not isinstance(secrets, (list, tuple)):
        yield "COUNTERS_REGION_SECRETS must be a list: the secret, and others to accept."
    elif not all(isinstance(one, str) and len(one) >= SHORTEST_SECRET for one in secrets):
        yield f"COUNTERS_REGION_SECRETS: each must have {SHORTEST_SECRET} characters or more."
    elif needed and not secrets:
        yield "COUNTERS_REGION_SECRETS is missing. A region with an address needs a secret."


def regional_problems(
    name: str, declared: Mapping[Any, Any], against: Mapping[str, str]
) -> Iterator[str]:
    """Yield the problems of ``REGIONAL`` and ``TOP_UP``; ``against``: {excluded option: reason}."""
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
        yield "REGIONAL needs a namespace of its own. It can't be in 'default'."
    if declared.get("TOP_UP") is not None and declared.get("FLOOR") is None:
        yield "TOP_UP needs a FLOOR of 0, because it moves stock."
    if declared.get("FLOOR") not in (None, 0):
        yield "REGIONAL needs a FLOOR of 0, or none, because each region has its own stock."
    for option, reason in against.items():
        if declared.get(option) is not None:
            yield f"REGIONAL excludes {option}: {reason}."


def _own() -> object:
    return getattr(settings, "COUNTERS_REGION", None)


def _peers() -> Any:
    return getattr(settings, "COUNTERS_REGIONS", None) or {}


def _secrets() -> Any:
    return getattr(settings, "COUNTERS_REGION_SECRETS", None) or ()


def _name_problems(setting: str, name: object) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{setting}: {name!r} must have 1 to 60 small letters, digits and hyphens."
