"""The declaration of the buffer in front of its counters. Keeps no state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os.path import isabs
from typing import Any, NamedTuple

from django_counters.features import Feature, absent_app, outlets
from django_counters.options import did_you_mean, is_integer, seconds

SECONDS, MOST = 1.0, 10_000
LARGEST = 1_000_000
# How long one may wait that has a file.
LONGEST = 3600
_SECONDS = seconds("seconds", SECONDS, "")


class Buffering(NamedTuple):
    """How increments of one process are merged before they are counted.

    Attributes:
        seconds: how long one waits at most, as long as it can be landed.
        most: how many different ones wait at most.
        to: the outlet that their sums are published to, for another process to count them; None:
            they are counted here.
        directory: where files keep them, for the case that the process is killed; None: nowhere.
    """

    seconds: float = SECONDS
    most: int = MOST
    to: str | None = None
    directory: str | None = None


def buffering_of(declared: Mapping[str, Any] | None) -> Buffering | None:
    """The declaration, if there is one."""
    return None if declared is None else Buffering(**declared)


def buffering_problems(
    declared: object,
    strategy: str,
    *,
    entries: bool,
    outside: bool,
    against: Iterable[str],
) -> Iterator[str]:
    """Say what is wrong with a declaration, and what cannot stand beside it.

    Args:
        declared: the value of ``BUFFER``.
        strategy: the name of the strategy.
        entries: whether that keeps each change.
        outside: whether increments wait outside of the database there.
        against: what is declared that a sum of several changes cannot say.
    """
    if declared is None:
        return
    if not isinstance(declared, Mapping):
        yield f"BUFFER is a dictionary, such as {{'seconds': 1}}, or None, not {declared!r}."
        return
    yield from _value_problems(declared)
    yield from _destination_problems(declared)
    if entries:
        yield f"BUFFER merges changes, and {strategy} keeps each of them."
    if outside:
        yield (
            f"BUFFER cannot stand in front of {strategy}: Redis merges its changes already. "
            "Remove BUFFER, or set STRATEGY to 'exact' or 'sharded'."
        )
    for name in against:
        yield f"BUFFER cannot stand beside {name}: only its own process knows a pending change."


def _value_problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    for name in declared:
        if name not in Buffering._fields:
            guess = did_you_mean(name, Buffering._fields)
            yield f"BUFFER has an unknown option {name!r}.{guess}"
    yield from (f"BUFFER: {one}" for one in _SECONDS.problems(declared.get("seconds", SECONDS)))
    most = declared.get("most", MOST)
    if not is_integer(most, 1, LARGEST):
        yield f"BUFFER: 'most' is an integer from 1 to {LARGEST}, not {most!r}."
    yield from _directory_problems(declared)


def _directory_problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    directory = declared.get("directory")
    if directory is None:
        return
    if not isinstance(directory, str) or not isabs(directory):
        yield f"BUFFER: 'directory' is the absolute path of a directory, not {directory!r}."
        return
    interval = declared.get("seconds", SECONDS)
    if isinstance(interval, int | float) and interval > LONGEST:
        # A file is known by the time when it was made, for a day.
        yield f"BUFFER: with 'directory' 'seconds' is {LONGEST} at most."


def _destination_problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    to = declared.get("to")
    if to is None:
        return
    known = tuple(outlets())
    if not isinstance(to, str) or to not in known:
        app = absent_app(lambda feature: type(feature).outlets is not Feature.outlets)
        if app and not known:
            yield f"BUFFER: 'to' needs {app} in INSTALLED_APPS."
        else:
            names = ", ".join(map(repr, known)) or "none"
            guess = did_you_mean(to, known)
            yield f"BUFFER: 'to' is the name of an outlet, not {to!r}; there are: {names}.{guess}"
    if declared.get("directory") is not None:
        yield "BUFFER: 'to' cannot stand beside 'directory': sums land in one place."
