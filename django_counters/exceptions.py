"""Every error of the app. The first line of a docstring is the message, its names are attributes.

An error other than `OutcomeUnknown` means: nothing was counted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist
from django.db import DatabaseError, OperationalError

if TYPE_CHECKING:
    from django_counters.types import Shortfall


class CounterError(Exception):
    """A counter could not do what was asked."""

    def __init__(self, **data: object) -> None:
        super().__init__()
        self.__dict__.update(data)

    def __str__(self) -> str:
        # Python started with -OO has no docstrings.
        message = (type(self).__doc__ or type(self).__name__).partition("\n")[0]
        return message.format_map(defaultdict(lambda: "?", vars(self)))


class InvalidKey(CounterError, ValueError):
    """{key!r:.80} is not a counter key: {reason}."""

    key: object
    reason: str


class InvalidDelta(CounterError, ValueError):
    """{delta!r:.80} cannot be counted: {reason}."""

    delta: object
    reason: str


class InvalidConfiguration(CounterError, ImproperlyConfigured):
    """COUNTERS is wrong: {problem}"""

    problem: str


class UnsupportedConsistency(CounterError, ValueError):
    """The {strategy} strategy cannot read with consistency {consistency!r}, only: {offered}."""

    strategy: str
    consistency: str
    offered: str


class UnsupportedBounds(CounterError, ValueError):
    """{key} cannot have a floor or a ceiling: the {strategy} strategy does not promise one."""

    key: str
    strategy: str


class ValueNotKnown(CounterError, TypeError):
    """The new value of {key} is known when the collector ends, not before."""

    key: str


class InsufficientCount(CounterError):
    """{key} has {available} to give above its floor {floor}, {requested} were requested.

    Raised by a change that would end below a floor. Nothing was changed.

    Attributes:
        key: the first counter that fell short.
        requested: how much was to be taken from it.
        available: how much could have been taken without crossing the floor.
        floor: the floor that held.
        shortfalls: one `Shortfall` for each counter of the call that fell short.
    """

    key: str
    requested: int
    available: int
    floor: int
    shortfalls: tuple[Shortfall, ...]


class CeilingExceeded(CounterError):
    """{key} has room for {available} below its ceiling {ceiling}, {requested} were requested.

    Raised by a change that would end above a ceiling. Nothing was changed.

    Attributes:
        key: the first counter without enough room.
        requested: how much was to be added to it.
        available: how much could have been added without crossing the ceiling.
        ceiling: the ceiling that held.
        shortfalls: one `Shortfall` for each counter of the call without enough room.
    """

    key: str
    requested: int
    available: int
    ceiling: int
    shortfalls: tuple[Shortfall, ...]


class CounterOverflow(CounterError, OverflowError):
    """Changing {key} would leave the range of its column ({low} to {high}).

    Raised instead of wrapping around. Nothing was changed.
    """

    key: str
    low: int
    high: int


class InitialOutOfBounds(CounterError, ValueError):
    """{field} cannot start at {value}: its floor is {floor}, its ceiling is {ceiling}."""

    field: str
    value: int
    floor: int | None
    ceiling: int | None


class UnsavedInstance(CounterError, ValueError):
    """{key} cannot count yet: save the instance first."""

    key: str


class RecordMissing(CounterError, ObjectDoesNotExist):
    """{key} cannot count: its row is not in the database (any more)."""

    key: str


class Contention(CounterError):
    """{key} was refused {attempts} times by the database although its bounds admit the change.

    Other writers, a trigger or a row security policy come in between. Nothing was changed.
    """

    key: str
    attempts: int


class CounterUnavailable(CounterError, OperationalError):
    """The database {using!r} could not be reached: {reason}. Nothing was counted."""

    using: str
    reason: str


class ReadOnlyDatabase(CounterError, DatabaseError):
    """The database {using!r} or its transaction is read-only. Nothing was counted."""

    using: str


class OutcomeUnknown(CounterError, OperationalError):
    """The connection to {using!r} was lost before the answer: counted or not, nobody knows.

    The only error after which a repeated call may count twice. Nothing in this app repeats it by
    itself.
    """

    using: str
