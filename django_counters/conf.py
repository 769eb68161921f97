"""The ``COUNTERS`` setting: what may stand in it, and what it means. Keeps no state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from django_counters.exceptions import InvalidConfiguration, InvalidDelta
from django_counters.types import UNBOUNDED, Bounds, check_integer, why_no_key

DEFAULT = "default"
STRATEGIES = ("exact",)
OPTIONS = ("STRATEGY", "FLOOR", "CEILING")


@dataclass(frozen=True, slots=True)
class Policy:
    """What a namespace declares for its counters."""

    strategy: str = "exact"
    bounds: Bounds = UNBOUNDED


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
    declared = {name: _policy(options) for name, options in dict(setting or {}).items()}  # type: ignore[call-overload]
    return MappingProxyType({DEFAULT: Policy(), **declared})


def _policy(options: Mapping[str, object]) -> Policy:
    bounds = Bounds(options.get("FLOOR"), options.get("CEILING"))  # type: ignore[arg-type]
    return Policy(str(options.get("STRATEGY", "exact")), bounds)


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
        else:
            yield Problem("E001", f"COUNTERS[{name!r}] must be a dictionary of options.")


def _name_problems(name: object) -> Iterator[Problem]:
    reason = why_no_key(name)
    if reason is None and ":" in str(name):
        reason = "it contains a colon"
    if reason:
        yield Problem("E002", f"{name!r} cannot be a namespace: {reason}.")


def _option_problems(where: str, options: Mapping[object, object]) -> Iterator[Problem]:
    for option in options:
        if option not in OPTIONS:
            yield Problem(
                "E003", f"{where} has an unknown option {option!r}.{did_you_mean(option, OPTIONS)}"
            )
    strategy = options.get("STRATEGY", "exact")
    if strategy not in STRATEGIES:
        guess = did_you_mean(strategy, STRATEGIES)
        yield Problem("E004", f"{where} has an unknown strategy {strategy!r}.{guess}")
    for message in bounds_problems(options.get("FLOOR"), options.get("CEILING")):
        yield Problem("E005", f"{where}: {message}")


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


def did_you_mean(word: object, known: tuple[str, ...]) -> str:
    """A half sentence that leads from a misspelt word to a known one."""
    close = get_close_matches(str(word).upper(), [name.upper() for name in known], n=1, cutoff=0.5)
    if close:
        return f" Did you mean {next(n for n in known if n.upper() == close[0])!r}?"
    return f" Known are: {', '.join(known)}."
