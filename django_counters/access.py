"""Who may reach a counter over HTTP: the ``API`` option of a namespace, and ``expose()``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.utils.module_loading import import_string

from django_counters.rates import rate_of

ACTIONS = ("read", "increment", "decrement", "adjust")
NOBODY, ANYONE, AUTHENTICATED, STAFF, PERMISSION, BEACON = (
    "",
    "anyone",
    "authenticated",
    "staff",
    "permission",
    "beacon",
)
RULES = (ANYONE, AUTHENTICATED, STAFF, PERMISSION)
MAX_DELTA = 1_000_000
MAX_COUNTERS = 10_000
_OPTIONS = (*ACTIONS, "max_delta", "max_counters", "origins", "limit")


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what with counters over HTTP. Nobody may do what is not named.

    Attributes:
        read, increment, decrement, adjust: ``"anyone"`` (who reads), ``"authenticated"``,
            ``"staff"``, ``"permission"`` (of Django), ``"beacon"`` (whoever increments), or the
            path of a permission class of REST framework.
        max_delta: the most that one call may change a counter by.
        max_counters: how many counters of the namespace the API may create.
        origins: the sites whose visitors may send beacons.
        limit: how many changes one principal may make, such as ``"60/min"``; empty: any number.
    """

    read: str = NOBODY
    increment: str = NOBODY
    decrement: str = NOBODY
    adjust: str = NOBODY
    max_delta: int = MAX_DELTA
    max_counters: int = MAX_COUNTERS
    origins: tuple[str, ...] = ()
    limit: str = ""

    def rule(self, action: str) -> str:
        """Who may do it."""
        rule: str = getattr(self, action)
        return rule


# The namespace that counts the counters which were created over HTTP. It is nobody's.
CREATED = "counters.created"
# What is not declared, is reached by nobody.
CLOSED = Access()


def access_of(declared: Mapping[str, Any] | None) -> Access:
    """What is declared, once nothing is wrong with it."""
    if not declared:
        return CLOSED
    given = {name: value for name, value in declared.items() if value is not None}
    return Access(**{**given, "origins": tuple(given.get("origins", ()))})


def access_problems(declared: object) -> Iterator[str]:
    """Say all that is wrong with an ``API`` option."""
    if declared is None:
        return
    if not isinstance(declared, Mapping):
        yield "API must be a dictionary."
        return
    for option in declared:
        if option not in _OPTIONS:
            yield f"API has an unknown option {option!r}. Known are: {', '.join(_OPTIONS)}."
    for action in ACTIONS:
        yield from _rule_problems(action, declared.get(action))
    yield from _number_problems(declared)
    yield from _beacon_problems(declared)


def _rule_problems(action: str, rule: object) -> Iterator[str]:
    known = (*RULES, BEACON) if action == "increment" else RULES
    if rule is None:
        return
    if rule == ANYONE and action != "read":
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
    limit = declared.get("limit")
    if limit is not None:
        try:
            rate_of(limit)
        except (TypeError, ValueError) as error:
            yield f"API: limit: {error}"


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
