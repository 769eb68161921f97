"""The settings ``COUNTERS_REGION`` and ``COUNTERS_REGIONS``, and the option ``REGIONAL``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.conf import settings

from django_counters.exceptions import InvalidConfiguration

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
#: The namespace of what regions have sent to each other. Nobody else counts in it.
SENT = "counters.sent"
# What one region cannot decide or tell for all of them.
_AGAINST = {
    "CEILING": "CEILING, which no region can keep for the others",
    "PER": "PER: cells of other regions are not read yet",
    "TAGS": "TAGS: cells of other regions are not read yet",
    "UNIQUE": "UNIQUE: sets of other regions are not read yet",
    "ONCE": "ONCE: no region knows whom the others have counted",
    "TOP": "TOP: ranks of other regions are not read yet",
    "HISTORY": "HISTORY, which records the totals of one region",
    "BUFFER": "BUFFER: files and streams may bring again what a restored region has published",
    "API": "API, which shows the values of one region",
}


class Regions(NamedTuple):
    """This region, and the databases of the others by their names."""

    own: str
    peers: Mapping[str, str]


def regions() -> Regions:
    """What is declared.

    Raises:
        InvalidConfiguration: the settings are wrong, or there are none.
    """
    for problem in region_problems(needed=True):
        raise InvalidConfiguration(problem=problem)
    return Regions(str(_own()), dict(_peers()))


def are_there() -> bool:
    """Whether this is a region at all."""
    return bool(_own())


def sent_to(region: str, incarnation: int) -> tuple[str, str]:
    """From which key on and before which one the counters are of what is on the way to a region.

    Whatever was sent to an incarnation that has ended never arrives: it may have arrived before
    the region was restored.
    """
    # "=" follows "<".
    return f"{SENT}:{region}.{incarnation}<", f"{SENT}:{region}.{incarnation}="


def sent_key(key: str, region: str, incarnation: int, sender: str) -> str:
    """The counter of what is on the way from one region to another one."""
    return f"{sent_to(region, incarnation)[0]}{sender}:{key}"


def region_problems(*, needed: bool) -> Iterator[str]:
    """Say what is wrong with the settings; ``needed``: whether there have to be some."""
    own, peers = _own(), _peers()
    if own is None and not peers and not needed:
        return
    yield from _name_problems("COUNTERS_REGION", own)
    if not isinstance(peers, Mapping):
        yield "COUNTERS_REGIONS is a dictionary: the database of each other region by its name."
        return
    for name, alias in peers.items():
        yield from _name_problems("COUNTERS_REGIONS", name)
        if name == own:
            yield f"COUNTERS_REGIONS: {name!r} is this region itself."
        if alias not in settings.DATABASES:
            yield f"COUNTERS_REGIONS: {alias!r} of {name!r} is no database of DATABASES."
    if len(set(map(str, peers.values()))) < len(peers):
        yield "COUNTERS_REGIONS: each region has a database of its own."


def regional_problems(name: str, declared: Mapping[Any, Any], *, outside: bool) -> Iterator[str]:
    """Say what ``REGIONAL`` cannot stand beside; ``outside``: increments wait in a Redis."""
    if declared.get("REGIONAL") is not True:
        if declared.get("TOP_UP") is not None:
            yield "TOP_UP needs REGIONAL: stock comes from another region."
        return
    wrong = list(_conflicts(name, declared, outside=outside))
    yield from wrong
    if not wrong and not are_there():
        yield "REGIONAL needs COUNTERS_REGION, the name of this region."


def _conflicts(name: str, declared: Mapping[Any, Any], *, outside: bool) -> Iterator[str]:
    if name == "default":
        yield "REGIONAL is for declared namespaces, whose keys can be found together."
    if outside:
        yield (
            "REGIONAL cannot stand beside cached: a Redis may bring again what a restored region "
            "has published."
        )
    if declared.get("TOP_UP") is not None and declared.get("FLOOR") is None:
        yield "TOP_UP needs a FLOOR of 0: it moves what a region may take."
    if declared.get("FLOOR") not in (None, 0):
        yield "REGIONAL needs a FLOOR of 0, or none: each region keeps what it may take."
    for option, reason in _AGAINST.items():
        if declared.get(option) is not None:
            yield f"REGIONAL cannot stand beside {reason}."


def _own() -> object:
    return getattr(settings, "COUNTERS_REGION", None)


def _peers() -> Any:
    return getattr(settings, "COUNTERS_REGIONS", None) or {}


def _name_problems(setting: str, name: object) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{setting}: {name!r} is no name of up to 60 small letters, digits and hyphens."
