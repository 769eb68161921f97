"""What each projection declares beside itself: its options in ``COUNTERS`` and of a field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django_counters.calendar import PERIODS
from django_counters.options import Option


@dataclass(frozen=True, eq=False)
class Projection:
    """All that the settings, the fields, the checks and the reference know of a projection.

    Attributes:
        name: what messages and tests call it.
        options: in small letters, as a field has them; a namespace has them in capitals.
        problems: says what is wrong with them; takes the options of all projections as arguments.
        make: their part of the `Measure`, by its attributes; takes the same arguments. Empty
            values where nothing is declared.
        in_namespaces, in_fields: the ids of the checks that say it.
        against: says which strategies and bounds cannot stand beside them; takes them as arguments,
            the name of a strategy, what it can do, and the bounds.
        merges: whether the sum of several changes says as much as they do, so that an app can
            merge them.
        spread: why other databases can't count such counters, too.
        irreversible: why a quantity that was counted can't be taken back later, if they are
            declared. Empty if it can.
        takes: options of others that it declares something by.
    """

    name: str
    options: tuple[Option, ...]
    problems: Callable[..., Iterator[str]]
    make: Callable[..., Mapping[str, Any]]
    in_namespaces: str
    in_fields: str
    against: Callable[..., Iterator[str]] = lambda *_, **__: iter(())
    merges: bool = False
    spread: str = "cells of other databases aren't read yet"
    irreversible: str = ""
    takes: tuple[str, ...] = ()


def finest_first(periods: object) -> tuple[str, ...]:
    """The periods of a list or a dictionary in one order; none where it is neither."""
    given = periods if isinstance(periods, list | tuple | Mapping) else ()
    return tuple(sorted((one for one in given if one in PERIODS), key=PERIODS.index))


def period_problems(name: str, given: object) -> Iterator[str]:
    """Say what is wrong with a list of periods."""
    if given is None:
        return
    if not isinstance(given, list | tuple) or not given or len(set(map(str, given))) < len(given):
        yield f"{name} is a list of different periods, not {given!r}."
        return
    for period in given:
        if period not in PERIODS:
            yield f"{period!r} is no period. Known are: {', '.join(PERIODS)}."
