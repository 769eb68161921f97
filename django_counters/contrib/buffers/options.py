"""The declaration of a buffer in front of the counters of a namespace. Keeps no state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from os.path import isabs
from typing import Any, NamedTuple

from django_counters.features import Feature, absent_app, features
from django_counters.options import Option, did_you_mean, is_integer, seconds
from django_counters.tenants import has_tenants

SECONDS, MOST = 1.0, 10_000
LARGEST = 1_000_000
# How long one may wait that has a file.
LONGEST = 3600
_SECONDS = seconds("seconds", SECONDS, "")


class Buffering(NamedTuple):
    """How a process merges increments before they are counted.

    Attributes:
        seconds: how long an increment waits at most, while it can be flushed.
        most: how many different counters are kept at most.
        to: the outlet that the sums are published to, for another process to count; None: they are
            counted here.
        directory: where files keep a copy, in case the process is killed; None: no files.
    """

    seconds: float = SECONDS
    most: int = MOST
    to: str | None = None
    directory: str | None = None


OPTION = Option(
    "BUFFER",
    None,
    "None or a dictionary with `'seconds'`, `'most'`, `'directory'` and `'to'`",
    "Increments wait [in a buffer of their process](../buffers.md) and are landed "
    "together: after so many seconds (1), or when so many different counters wait (10,000). "
    "Files in a `'directory'` keep them where the process is killed. With `'to'` they are "
    "[published](../how-to/publish-to-a-stream.md) under that name.",
    code="E040",
)


def outlets() -> dict[str, Callable[[Any, str], Any]]:
    """Return where pages can be sent: `Feature.outlets` of all installed apps."""
    return {name: make for feature in features() for name, make in feature.outlets().items()}


def buffering_problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    """Return what is wrong with the ``BUFFER`` of a namespace, and what can't stand beside it."""
    buffer = declared.get("BUFFER")
    if buffer is None:
        return
    if has_tenants():
        yield (
            "BUFFER can't be used with COUNTERS_TENANT, because the thread that flushes buffers "
            "serves no tenant. Remove BUFFER; STRATEGY 'cached' is quick as well."
        )
    if not isinstance(buffer, Mapping):
        yield f"BUFFER is a dictionary, such as {{'seconds': 1}}, or None, not {buffer!r}."
        return
    yield from _value_problems(buffer)
    yield from _destination_problems(buffer)
    yield from _strategy_problems(declared)


def _strategy_problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    from django_counters.conf import namespace_strategy, projections

    name = declared.get("STRATEGY", "exact")
    strategy = namespace_strategy(name)
    if strategy is None:
        return
    if strategy.can.entries:
        yield f"BUFFER merges changes, and {name} keeps each of them."
    if strategy.can.outside:
        yield (
            f"BUFFER cannot stand in front of {name}: Redis merges its changes already. "
            "Remove BUFFER, or set STRATEGY to 'exact' or 'sharded'."
        )
    # These need each change by itself.
    unmerged = (option.name for one in projections() if not one.merges for option in one.options)
    for option in ("FLOOR", *map(str.upper, unmerged)):
        if declared.get(option) is not None:
            yield (
                f"BUFFER cannot stand beside {option}: only its own process knows a pending change."
            )


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
