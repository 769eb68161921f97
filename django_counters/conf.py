"""The ``COUNTERS`` setting: what may stand in it, and what it means. Keeps no state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple

from django_counters.access import AUDITED, CLOSED, CREATED, Access, access_of, access_problems
from django_counters.exceptions import InvalidConfiguration, InvalidDelta
from django_counters.measure import Measure, measure_of, measure_problems
from django_counters.types import UNBOUNDED, Bounds, check_integer, why_no_key

DEFAULT = "default"
OPTIONS = (
    "STRATEGY",
    "FLOOR",
    "CEILING",
    "CACHE",
    "ON_REDIS_DOWN",
    "APPROVE_ABOVE",
    "HISTORY",
    "HISTORY_DAYS",
    "PER",
    "TAGS",
    "KEEP",
    "API",
    "OPTIONS",
)
NAMED_STRATEGIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "exact": ("combine",),
        "sharded": ("shards",),
        "ledger": ("retention_days",),
        "cached": ("max_age", "timeout"),
    }
)
FIELD_STRATEGIES = ("exact", "slotted", "cached")
# Where increments of cached counters go while Redis cannot be reached.
NAMED_DETOURS = ("ledger", "raise", "exact")
FIELD_DETOURS = ("exact", "raise")
# Seconds.
MAX_AGE = 5.0
TIMEOUT = 0.05
_REDISES = ("redis", "valkey")
AUTO = "auto"
MOST_SHARDS = 64
LARGEST_NUMBER = 1024
# Tokens are accepted for two days, and a partition holds one.
LEAST_RETENTION = 4
# How often totals are recorded, and for how many days what was recorded is kept.
HISTORIES: Mapping[str, str] = MappingProxyType({"1h": "hour", "1d": "day"})
HISTORY_DAYS = 90
MOST_HISTORY_DAYS = 36_500


class Capabilities(NamedTuple):
    """What a strategy can do. Ask for it, not for the name: the next strategy may do it, too.

    in_place: a change is part of the total at once; nothing is pending. bounded: it keeps a floor
    and a ceiling. joins: a change is part of the caller's transaction.
    outside: pending increments are not in the database, so a value is not there alone. cached: it
    offers values that may be old (``consistency="cached"``). shards, slots: pending increments are
    in rows of this kind. entries: each change is kept, with its time.
    """

    in_place: bool = False
    bounded: bool = False
    joins: bool = True
    outside: bool = False
    cached: bool = False
    shards: bool = False
    slots: bool = False
    entries: bool = False


CAPABILITIES: Mapping[str, Capabilities] = MappingProxyType(
    {
        "exact": Capabilities(in_place=True, bounded=True),
        "sharded": Capabilities(shards=True),
        "slotted": Capabilities(slots=True),
        "ledger": Capabilities(entries=True),
        "cached": Capabilities(joins=False, outside=True, cached=True),
        "cached as exact": Capabilities(in_place=True, cached=True),
    }
)
_NOTHING = Capabilities()


class Recipe(NamedTuple):
    """What a strategy is made of: counters with the same recipe are changed in one statement."""

    strategy: str = "exact"
    shards: int = MOST_SHARDS
    combine: bool = False
    cache: str = ""
    detour: str = ""
    timeout: float = TIMEOUT

    @property
    def can(self) -> Capabilities:
        """What counters of this recipe can do; nothing special where the strategy is unknown."""
        return CAPABILITIES.get(self.strategy, _NOTHING)


EXACT = Recipe()
# What replaces cached counters where COUNTERS_CACHED_AS_EXACT is set.
CACHED_AS_EXACT = Recipe("cached as exact")


@dataclass(frozen=True, slots=True)
class Policy:
    """What a namespace or a field declares for its counters.

    ``retention_days``: for how long the ledger keeps its entries; None for ever. ``max_age``: how
    old a total may be where a cached read does not say it, in seconds. ``approve_above``: by how
    much one person alone may adjust a counter; None: by any amount. ``history``: the period of its
    recorded totals; empty where none are recorded. ``history_days``: for how long those are kept.
    ``access``: who may reach the counters over HTTP. ``measure``: what is counted by period; None
    where nothing is.
    """

    recipe: Recipe = EXACT
    bounds: Bounds = UNBOUNDED
    retention_days: int | None = None
    max_age: float = MAX_AGE
    approve_above: int | None = None
    history: str = ""
    history_days: int = HISTORY_DAYS
    access: Access = CLOSED
    measure: Measure | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in ``COUNTERS``; ``code`` is the id of the check that reports it."""

    code: str
    message: str


def policies(setting: object) -> Mapping[str, Policy]:
    """Return the policy of each declared namespace.

    Raises:
        InvalidConfiguration: something is wrong; the message names the first problem.
    """
    for problem in problems(setting):
        raise InvalidConfiguration(problem=problem.message)
    given: Any = setting or {}
    declared = {name: _policy(name, options) for name, options in given.items()}
    return MappingProxyType({DEFAULT: Policy(), **declared})


def _policy(name: str, declared: Mapping[str, Any]) -> Policy:
    bounds = Bounds(declared.get("FLOOR"), declared.get("CEILING"))
    options = declared.get("OPTIONS", {})
    strategy = declared.get("STRATEGY", "exact")
    recipe = Recipe(
        strategy=strategy,
        shards=most_shards(options.get("shards", AUTO)),
        combine=options.get("combine", False),
    )
    if strategy == "cached":
        recipe = recipe._replace(
            cache=declared.get("CACHE", DEFAULT),
            detour=declared.get("ON_REDIS_DOWN", NAMED_DETOURS[0]),
            timeout=options.get("timeout", TIMEOUT),
        )
    # Entries of cached counters are there for their tokens, not as a history.
    retention = LEAST_RETENTION if strategy == "cached" else options.get("retention_days")
    return Policy(
        recipe,
        bounds,
        retention,
        options.get("max_age", MAX_AGE),
        approve_above=declared.get("APPROVE_ABOVE"),
        history=HISTORIES.get(declared.get("HISTORY") or "", ""),
        history_days=declared.get("HISTORY_DAYS", HISTORY_DAYS),
        access=access_of(declared.get("API")),
        measure=measure_of(name, *_measured(declared)),
    )


def _measured(declared: Mapping[Any, Any]) -> tuple[object, object, object]:
    return declared.get("PER"), declared.get("TAGS"), declared.get("KEEP")


def most_shards(declared: int | str) -> int:
    """How many rows a counter may have."""
    return MOST_SHARDS if isinstance(declared, str) else declared


def problems(setting: object) -> Iterator[Problem]:
    """Yield all that is wrong in the value of ``COUNTERS``."""
    if setting is None:
        return
    if not isinstance(setting, Mapping):
        yield Problem("E001", "COUNTERS must be a dictionary of namespaces.")
        return
    for name, options in setting.items():
        yield from _name_problems(name)
        if isinstance(options, Mapping):
            yield from _option_problems(f"COUNTERS[{name!r}]", options)
            yield from _access_problems(str(name), options.get("API"))
        else:
            yield Problem("E001", f"COUNTERS[{name!r}] must be a dictionary of options.")


def _name_problems(name: object) -> Iterator[Problem]:
    reason = why_no_key(name)
    if reason is None and ":" in str(name):
        reason = "it contains a colon"
    elif reason is None and name != DEFAULT and str(name).lower() == DEFAULT:
        reason = f"what is not declared has the policy of {DEFAULT!r}, in small letters"
    if reason:
        yield Problem("E002", f"{name!r} cannot be a namespace: {reason}.")


def _option_problems(where: str, options: Mapping[object, object]) -> Iterator[Problem]:
    for option in options:
        if option not in OPTIONS:
            yield Problem(
                "E003", f"{where} has an unknown option {option!r}.{did_you_mean(option, OPTIONS)}"
            )
    strategy = options.get("STRATEGY", "exact")
    if strategy not in NAMED_STRATEGIES:
        guess = did_you_mean(strategy, tuple(NAMED_STRATEGIES))
        if strategy == "slotted":
            guess = " Slots belong to records; a named counter is 'sharded'."
        yield Problem("E004", f"{where} has an unknown strategy {strategy!r}.{guess}")
    else:
        yield from _strategy_problems(where, str(strategy), options)
    found = {
        "E005": bounds_problems(options.get("FLOOR"), options.get("CEILING")),
        "E023": limit_problems(options.get("APPROVE_ABOVE")),
        "E025": _history_problems(strategy, options),
        "E027": measure_problems(*_measured(options)),
    }
    for code, messages in found.items():
        for message in messages:
            yield Problem(code, f"{where}: {message}")


def _access_problems(name: str, declared: object) -> Iterator[Problem]:
    """What is wrong with who may reach the counters over HTTP."""
    where = f"COUNTERS[{name!r}]"
    for message in access_problems(declared):
        yield Problem("E026", f"{where}: {message}")
    if declared is not None and name == DEFAULT:
        problem = "API is for declared namespaces: what is not declared cannot be reached."
        yield Problem("E026", f"{where}: {problem}")
    if declared is not None and name in (CREATED, AUDITED):
        problem = "API cannot be there: it would let others change what the app keeps for itself."
        yield Problem("E026", f"{where}: {problem}")


def _history_problems(strategy: object, options: Mapping[object, object]) -> Iterator[str]:
    """What is wrong with what is to be recorded, and for how long."""
    history, days = options.get("HISTORY"), options.get("HISTORY_DAYS", HISTORY_DAYS)
    if history is not None and history not in tuple(HISTORIES):
        yield f"HISTORY is None or one of {', '.join(HISTORIES)}, not {history!r}."
    elif history is not None and strategy == "ledger":
        yield "HISTORY is for counters without a ledger: its entries are a history already."
    if type(days) is not int or not 0 < days <= MOST_HISTORY_DAYS:
        yield f"HISTORY_DAYS is an integer from 1 to {MOST_HISTORY_DAYS}, not {days!r}."


def _strategy_problems(
    where: str, strategy: str, declared: Mapping[object, object]
) -> Iterator[Problem]:
    """What is wrong with the options of a strategy, and with bounds that it cannot hold."""
    options = declared.get("OPTIONS", {})
    if not isinstance(options, Mapping):
        yield Problem("E008", f"{where}['OPTIONS'] must be a dictionary.")
        return
    known = NAMED_STRATEGIES[strategy]
    for option in options:
        if option not in known:
            guess = did_you_mean(option, known)
            yield Problem("E008", f"{where}: {strategy} has no option {option!r}.{guess}")
    for message in _value_problems(options):
        yield Problem("E008", f"{where}: {message}")
    yield from _cache_problems(where, strategy, declared)
    if not CAPABILITIES[strategy].bounded and not {"FLOOR", "CEILING"}.isdisjoint(declared):
        yield Problem("E009", f"{where}: {strategy} cannot hold a floor or a ceiling, exact can.")


def _value_problems(options: Mapping[object, object]) -> Iterator[str]:
    """What is wrong with the values of options."""
    yield from shards_problems(options.get("shards", AUTO))
    if not isinstance(options.get("combine", False), bool):
        yield "'combine' is True or False."
    days = options.get("retention_days")
    if days is not None and (type(days) is not int or days < LEAST_RETENTION):
        yield f"'retention_days' is None or {LEAST_RETENTION} or more."
    for name in ("max_age", "timeout"):
        if not is_duration(options.get(name, TIMEOUT)):
            yield f"{name!r} is a number of seconds above zero."


def _cache_problems(
    where: str, strategy: str, declared: Mapping[object, object]
) -> Iterator[Problem]:
    """What is wrong with the options that say which Redis, and what without it."""
    given = {"CACHE", "ON_REDIS_DOWN"}.intersection(map(str, declared))
    if strategy != "cached":
        for option in sorted(given):
            yield Problem("E019", f"{where}: {option} is for cached counters, not for {strategy}.")
        return
    cache = declared.get("CACHE", DEFAULT)
    if not isinstance(cache, str) or not cache:
        yield Problem("E019", f"{where}: CACHE is an alias of CACHES or a URL, not {cache!r}.")
    detour = declared.get("ON_REDIS_DOWN", NAMED_DETOURS[0])
    if detour not in NAMED_DETOURS:
        guess = did_you_mean(detour, NAMED_DETOURS)
        yield Problem("E019", f"{where}: ON_REDIS_DOWN cannot be {detour!r}.{guess}")


def is_duration(seconds: object) -> bool:
    """Whether this is a number of seconds that somebody may wait, or that may be old."""
    return (
        isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < 86_400
    )


def shards_problems(declared: object) -> Iterator[str]:
    """Yield what is wrong with a declared number of shards or slots."""
    if declared == AUTO:
        return
    if isinstance(declared, bool) or not isinstance(declared, int):
        yield f"the number of rows is {AUTO!r} or an integer, not {declared!r}."
    elif not 1 <= declared <= LARGEST_NUMBER:
        yield f"the number of rows is from 1 to {LARGEST_NUMBER}, not {declared}."


def bounds_problems(floor: object, ceiling: object) -> Iterator[str]:
    """Yield what is wrong with a declared floor and ceiling."""
    numbers: dict[str, int] = {}
    for name, bound in (("floor", floor), ("ceiling", ceiling)):
        if bound is not None:
            try:
                numbers[name] = check_integer(bound)
            except InvalidDelta as error:
                yield f"{bound!r} cannot be a {name}: {error.reason}."
    if len(numbers) == 2 and numbers["floor"] > numbers["ceiling"]:
        yield f"the floor {floor} is above the ceiling {ceiling}."


def limit_problems(limit: object) -> Iterator[str]:
    """Yield what is wrong with a limit above which an adjustment needs a second person."""
    if limit is not None and (type(limit) is not int or limit < 0):
        yield f"the limit of an adjustment is None or an integer from 0 on, not {limit!r}."


def did_you_mean(word: object, known: tuple[str, ...]) -> str:
    """A half sentence that leads from a misspelt word to a known one."""
    if str(word).lower() in _REDISES and "cached" in known:
        return " What is counted in Redis is 'cached'."
    close = get_close_matches(str(word).upper(), [name.upper() for name in known], n=1, cutoff=0.5)
    if close:
        return f" Did you mean {next(n for n in known if n.upper() == close[0])!r}?"
    return f" Known are: {', '.join(known)}."
