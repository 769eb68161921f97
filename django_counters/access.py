"""Who may reach a counter over HTTP, and at which rate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from re import Pattern
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.utils.module_loading import import_string

from django_counters.features import absent_app, actions, features, reads
from django_counters.options import is_integer
from django_counters.types import short_key

# Rates, written as ``"10/min"``.

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_WRITTEN = re.compile(r"\s*(\d{1,12})\s*/\s*(\d{0,6})\s*([a-z]+)\s*", re.ASCII)
# Redis counts microseconds in doubles, which are exact for some centuries.
LONGEST = 366 * 86_400


class Rate(NamedTuple):
    """How many are admitted, in how many seconds. As many may come at once.

    Attributes:
        number: how many; also what a full bucket holds.
        seconds: in how much time an empty bucket is full again.
    """

    number: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.number}/{self.seconds:g}s"


@lru_cache(maxsize=256)
def rate_of(text: str) -> Rate:
    """The rate that a text means: ``"10/min"``, ``"5/s"``, ``"1000/day"``, ``"30/10s"``.

    Units are s, m, h and d, or the words for them: sec, second, min, minute, hour, day.

    Raises:
        ValueError: it means none, or one that admits nothing, or one of more than a year.
    """
    # Settings are read from here, too: they may be anything.
    found = _WRITTEN.fullmatch(str(text))
    unit = _UNITS.get(found[3]) if found else None
    if found is None or unit is None:
        raise ValueError(f"{text!r:.80} is not a rate; one is written as '10/min' or '30/10s'.")
    rate = Rate(int(found[1]), int(found[2] or 1) * _SECONDS[unit])
    check_rate(rate)
    return rate


def check_rate(rate: Rate) -> None:
    """Refuse a rate that no bucket can keep.

    Raises:
        ValueError: it is not of numbers; it admits nothing, or more than one in a microsecond; or
            its time is none or more than a year.
    """
    number: object = rate.number
    seconds: object = rate.seconds
    if type(number) is not int:
        raise ValueError(f"{number!r:.80} is not an integer: a rate is Rate(10, 60), or '10/min'.")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or isnan(seconds):
        raise ValueError(f"{seconds!r:.80} is not a time: a rate is Rate(10, 60), or '10/min'.")
    if rate.number < 1:
        raise ValueError(f"{rate} admits nothing; the least is 1.")
    if not 0 < rate.seconds <= LONGEST:
        raise ValueError(f"{rate} is not of a time above zero and up to a year.")
    if rate.number > rate.seconds * 1_000_000:
        raise ValueError(f"{rate} is more than one in a microsecond.")


def check_burst(rate: Rate, burst: int) -> None:
    """Refuse a burst that no bucket of a rate can have.

    Raises:
        ValueError: it is no integer from 1 to the number less one; or what is left of the rate
            would need more than a year to bring it back.
    """
    most = rate.number - 1
    if not is_integer(burst, 1, most):
        raise ValueError(f"The burst of {rate} is an integer from 1 to {most}, not {burst!r}.")
    if burst * rate.seconds > LONGEST * (rate.number - burst):
        raise ValueError(
            f"With a burst of {burst}, {rate} would take more than a year to come back."
        )


# Access: the ``API`` option of a namespace, and the arguments of ``expose()``.

ACTIONS = ("read", "increment", "decrement", "adjust", "list", "approve")
# What changes nothing can be for anybody.
_READS = ("read", "list")
NOBODY, ANYONE, AUTHENTICATED, STAFF, PERMISSION, BEACON = (
    "",
    "anyone",
    "authenticated",
    "staff",
    "permission",
    "beacon",
)
RULES = (ANYONE, AUTHENTICATED, STAFF, PERMISSION)
# By what visitors are told apart who say no ``who``.
ADDRESS = "address"
MAX_DELTA = 1_000_000
MAX_COUNTERS = 10_000
# Bits of an IPv6 address that are the network. /64 is what ``limit`` is for.
_NETWORKS = range(16, 64)
Names = Pattern[str] | Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what with counters over HTTP. Anything that is not named is forbidden.

    Attributes:
        read, increment, decrement, adjust, list, approve: ``"anyone"`` (who reads),
            ``"authenticated"``, ``"staff"``, ``"permission"`` (of Django), ``"beacon"`` (whoever
            increments), or the path of a permission class of REST framework.
        max_delta: the most that one call may change a counter by.
        max_counters: how many counters of the namespace the API may create.
        names: which counters the API may create: a test of the name, which is the part behind the
            colon of the key. None: any.
        origins: the sites whose visitors may send beacons.
        limit: how many changes one principal may make, such as ``"60/min"``; empty: any number.
        burst: how many of them at once, less than the rate has: then no time of its length ever has
            more than the rate says. None: as many as the rate has.
        network_limits: how many changes all addresses of an IPv6 network may make together: pairs
            of the length of the network, as in ``/48``, and a rate. The longest come first.
        who: ``"address"``: visitors who are not logged in, and do not say ``who`` they are, are
            told apart by their network address. Empty: they are not counted as distinct actors.
        added: the rules for actions of other apps: pairs of an action and a rule.
    """

    read: str = NOBODY
    increment: str = NOBODY
    decrement: str = NOBODY
    adjust: str = NOBODY
    list: str = NOBODY
    approve: str = NOBODY
    max_delta: int = MAX_DELTA
    max_counters: int = MAX_COUNTERS
    names: Names | None = None
    origins: tuple[str, ...] = ()
    limit: str = ""
    burst: int | None = None
    network_limits: tuple[tuple[int, str], ...] = ()
    who: str = ""
    added: tuple[tuple[str, str], ...] = ()

    def rule(self, action: str) -> str:
        """Who may do it."""
        added = dict(self.added)
        rule: str = added[action] if action in added else getattr(self, action, NOBODY)
        return rule

    @property
    def creates(self) -> bool:
        """Whether a client may create counters: to change one that is not there makes it."""
        changing = (rule for name, rule in self.added if name not in reads())
        return any((self.increment, self.decrement, self.adjust, *changing))

    def admits_name(self, key: str) -> bool:
        """Whether the API may create the counter, as far as its name goes."""
        if self.names is None:
            return True
        name = key.partition(":")[2]
        asked = self.names.fullmatch if isinstance(self.names, Pattern) else self.names
        return bool(asked(name))


# The namespace that counts the counters which were created over HTTP. Clients cannot reach it.
CREATED = "counters.created"
# That of the counter which says how far the audit was sound. Clients cannot reach it, either.
AUDITED = "counters.audited"
# The namespace that has when each job of upkeep began last. Clients cannot reach it.
UPKEEP = "counters.upkeep"
# Clients cannot reach counters that are not declared.
CLOSED = Access()


def created_key(namespace: str) -> str:
    """Return the key of the counter of the counters created over HTTP in a namespace."""
    return short_key(f"{CREATED}:{namespace}")


def access_of(declared: Mapping[str, Any] | None) -> Access:
    """The declaration, once nothing is wrong with it."""
    if not declared:
        return CLOSED
    given = {name: value for name, value in declared.items() if value is not None}
    given["origins"] = tuple(given.get("origins", ()))
    networks = given.get("network_limits", {})
    given["network_limits"] = tuple(sorted(networks.items(), reverse=True))
    if isinstance(given.get("names"), str):
        given["names"] = re.compile(given["names"])
    given["added"] = tuple((name, given.pop(name)) for name in actions() if name in given)
    return Access(**given)


def access_problems(declared: object) -> Iterator[str]:
    """Say all that is wrong with an ``API`` option."""
    if declared is None:
        return
    if not isinstance(declared, Mapping):
        yield "API must be a dictionary."
        return
    further = tuple(actions())
    known = [name for name in Access.__dataclass_fields__ if name != "added"]
    for option in declared:
        if option not in (*known, *further):
            yield _unknown(option, (*known, *further))
    for action in (*ACTIONS, *further):
        yield from _rule_problems(action, declared.get(action))
    yield from _number_problems(declared)
    yield from _name_problems(declared.get("names"))
    yield from _limit_problems(declared)
    yield from _beacon_problems(declared)
    if declared.get("who") not in (None, ADDRESS):
        yield f"API: who is {ADDRESS!r} or None, not {declared['who']!r}."


def _unknown(option: object, known: Iterable[str]) -> str:
    if app := absent_app(lambda feature: option in (*feature.actions, *feature.reads)):
        return f"API: {option} needs {app} in INSTALLED_APPS."
    return f"API has an unknown option {option!r}. Known are: {', '.join(known)}."


def _rule_problems(action: str, rule: object) -> Iterator[str]:
    known = (*RULES, BEACON) if action == "increment" else RULES
    if rule is None:
        return
    if rule == ANYONE and action not in (*_READS, *reads()):
        hint = "an increment by anybody is a 'beacon'" if action == "increment" else "name who may"
        yield f"API: {action} cannot be for 'anyone'; {hint}."
    elif isinstance(rule, str) and "." in rule:
        yield from _class_problems(action, rule)
    elif rule not in known:
        listed = ", ".join(known)
        yield f"API: {action} is one of {listed}, or the path of a class, not {rule!r}."


def _class_problems(action: str, path: str) -> Iterator[str]:
    try:
        found = import_string(path)
    except (ImportError, TypeError, ValueError) as error:
        yield f"API: {action} names a permission class that cannot be imported: {error}"
        return
    if not isinstance(found, type) or not hasattr(found, "has_object_permission"):
        yield f"API: {action} names {path!r}, which is no permission class."


def _number_problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    for option, default in (("max_delta", MAX_DELTA), ("max_counters", MAX_COUNTERS)):
        number = declared.get(option, default)
        if type(number) is not int or not 0 < number < 2**63:
            yield f"API: {option} is an integer above zero, not {number!r}."


def _name_problems(names: object) -> Iterator[str]:
    problem = "" if names is None or callable(names) else f"not {names!r}"
    if isinstance(names, Pattern):
        # One of bytes would be an error at each request.
        problem = "" if isinstance(names.pattern, str) else "not one of bytes"
    elif isinstance(names, str):
        try:
            re.compile(names)
            problem = ""
        except re.error as error:
            problem = f"not {names!r}: {error}"
    if problem:
        yield f"API: names is a regular expression or a function of the name, {problem}."


def _limit_problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    limit, burst = declared.get("limit"), declared.get("burst")
    if limit is not None:
        yield from _rate_problems("limit", limit, burst)
    elif burst is not None:
        yield "API: a burst is that of a 'limit'."
    yield from _network_problems(declared.get("network_limits"))
    wanted = [option for option in ("limit", "network_limits") if declared.get(option)]
    if wanted and not any(feature.keeps_rates for feature in features()):
        app = absent_app(lambda feature: feature.keeps_rates) or "an app for rates"
        yield from (f"API: {option} needs {app} in INSTALLED_APPS." for option in wanted)


def _network_problems(networks: object) -> Iterator[str]:
    if networks is None:
        return
    if not isinstance(networks, Mapping):
        yield "API: network_limits is a dictionary, as in {48: '600/min'}."
        return
    for bits, rate in networks.items():
        if type(bits) is not int or bits not in _NETWORKS:
            yield f"API: network_limits: a network has 16 to 63 bits, not {bits!r}."
        yield from _rate_problems("network_limits", rate)


def _rate_problems(option: str, rate: Any, burst: Any = None) -> Iterator[str]:
    try:
        parsed = rate_of(rate)
        if burst is not None:
            check_burst(parsed, burst)
    except (TypeError, ValueError) as error:
        yield f"API: {option}: {error}"


def _beacon_problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    origins = declared.get("origins") or ()
    listed = origins if isinstance(origins, list | tuple) else ()
    if declared.get("increment") == BEACON:
        if not listed:
            yield "API: a beacon needs 'origins', the list of sites that may send it."
        if not declared.get("limit"):
            yield "API: a beacon needs a 'limit', such as '60/min'."
    elif origins:
        yield "API: 'origins' are for beacons."
    for origin in listed:
        if not _is_origin(origin):
            yield f"API: {origin!r} is no origin; one is written as 'https://example.org'."


def _is_origin(origin: object) -> bool:
    if not isinstance(origin, str):
        return False
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.netloc)
        and origin == f"{parts.scheme}://{parts.netloc}".lower()
    )
