"""What people may declare of their counters, one value for each option."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, NamedTuple

from django.conf import settings


def written_namespaces() -> list[Mapping[Any, Any]]:
    """Return the options of each namespace in ``COUNTERS``, even if some of them are wrong."""
    setting = getattr(settings, "COUNTERS", None)
    declared = setting.values() if isinstance(setting, Mapping) else ()
    return [options for options in declared if isinstance(options, Mapping)]


class Option(NamedTuple):
    """One thing that people may declare. Checks, parsing and the reference are read from it.

    Attributes:
        name: how it is written. In capitals it stands beside ``STRATEGY``, else within ``OPTIONS``
            or among the arguments of a field.
        default: what holds where it is not declared.
        expected: the values it may have, as messages and the reference say it.
        meaning: its effect, for the reference.
        accepts: whether a value is that; some are checked together with others instead.
        choices: the values that it may have, where those are few.
        builds: whether strategies are built from it; others read it in ``policy.options``.
        code: the id of its check, where that is not the usual one.
        secret: whether a value may have a password, so that no message shows it.
    """

    name: str
    default: Any
    expected: str
    meaning: str
    accepts: Callable[[Any], bool] = lambda _: True
    choices: tuple[str, ...] = ()
    builds: bool = True
    code: str = ""
    secret: bool = False

    @property
    def key(self) -> str:
        """Its name as an argument."""
        return self.name.lower()

    def problems(self, value: object) -> Iterator[str]:
        """Say what is wrong with a value, if it is."""
        if not self.accepts(value):
            shown = self.name if self.name.isupper() else repr(self.name)
            given = f"a value of type {type(value).__name__}" if self.secret else repr(value)
            yield f"{shown} is {self.expected}, not {given}.{closest(value, self.choices)}"


def choice(name: str, choices: tuple[str, ...], meaning: str) -> Option:
    """An option that is one of some words; the first one is its default."""
    expected = f"one of {', '.join(map(repr, choices))}"
    return Option(name, choices[0], expected, meaning, choices.__contains__, choices)


def seconds(name: str, default: float, meaning: str) -> Option:
    """An option that is a time: of waiting, or the age of a value."""
    return Option(name, default, "a number of seconds above zero", meaning, _is_duration)


def is_integer(value: object, low: int, high: int | None = None) -> bool:
    """Whether it is an integer within limits; True and False are none."""
    return type(value) is int and low <= value and (high is None or value <= high)


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 86_400


def did_you_mean(word: object, known: tuple[str, ...]) -> str:
    """A half sentence that leads from a misspelt word to a known one."""
    listed = f" Known are: {', '.join(known)}." if known else ""
    return closest(word, known) or listed


def closest(word: object, known: tuple[str, ...]) -> str:
    """The same; empty where none is like it."""
    close = get_close_matches(str(word).upper(), [name.upper() for name in known], n=1, cutoff=0.5)
    return f" Did you mean {next(n for n in known if n.upper() == close[0])!r}?" if close else ""


# So many weeks are a timedelta, too.
_LENGTH = re.compile(r"([1-9]\d{0,7})([mhdw])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def length_of(text: object) -> timedelta | None:
    """The time that ``"5m"``, ``"24h"``, ``"7d"`` or ``"2w"`` means; None if this means none."""
    found = _LENGTH.fullmatch(text) if isinstance(text, str) else None
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


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
