"""What each projection declares beside itself: its options in ``COUNTERS`` and of a field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
