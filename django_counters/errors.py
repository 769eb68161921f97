"""Every error of the app. The first line of a docstring is the message, its names are attributes.

An error other than `OutcomeUnknown`, of the app or of the database, means: nothing was counted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist
from django.db import DatabaseError, OperationalError

if TYPE_CHECKING:
    from datetime import datetime


class Shortfall(NamedTuple):
    """One counter of a refused change: how much was requested, how much there was."""

    key: str
    requested: int
    available: int
    bound: int


class CounterError(Exception):
    """A counter could not do what was asked."""

    def __init__(self, **data: object) -> None:
        super().__init__()
        self.__dict__.update(data)

    def __str__(self) -> str:
        # Python started with -OO has no docstrings.
        paragraph = (type(self).__doc__ or type(self).__name__).partition("\n\n")[0]
        message = " ".join(paragraph.split())
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
    """{key} cannot have this floor or ceiling: the {strategy} strategy does not promise it."""

    key: str
    strategy: str


class UnsupportedReading(CounterError, ValueError):
    """{key} has no reading: {reason}."""

    key: str
    reason: str


class UnsupportedHistory(CounterError, LookupError):
    """{key} is {strategy}: when it changed is known of the counters of a ledger alone."""

    key: str
    strategy: str


class ValueNotKnown(CounterError, TypeError):
    """The value of {key} is not known: {reason}."""

    key: str
    reason: str


class InvalidToken(CounterError, ValueError):
    """{token!r:.80} is not a token: {reason}."""

    token: object
    reason: str


class UnsupportedToken(CounterError, ValueError):
    """{what} cannot honour a token: {reason}."""

    what: str
    reason: str


class InvalidTags(CounterError, ValueError):
    """The tags {tags!r:.80} of {key} cannot be counted: {reason}."""

    tags: object
    key: str
    reason: str


class InvalidMoment(CounterError, ValueError):
    """Nothing can be counted at {moment!s:.80}: {reason}."""

    moment: object
    reason: str


class InvalidActor(CounterError, ValueError):
    """This is no actor: {reason}."""

    who: object
    reason: str


class UnsupportedSeries(CounterError, LookupError):
    """{key} is not counted by period: {reason}."""

    key: str
    reason: str


class UnsupportedCondition(CounterError, LookupError):
    """{key} changes on a condition: {reason}. Use an exact counter."""

    key: str
    reason: str


class UnsupportedOption(CounterError, ValueError):
    """{option} means nothing for {key}: {strategy} counters always join the transaction."""

    option: str
    key: str
    strategy: str


class TokenConflict(CounterError, ValueError):
    """The token {token!r:.80} was used before, for another change.

    The same token with another counter or another delta is a bug of the caller, or two callers
    who made the same token. Nothing was counted.
    """

    token: object


class UnsupportedMaximum(CounterError, ValueError):
    """{key} cannot be raised to a maximum: {reason}."""

    key: str
    reason: str


class TokenExpired(CounterError, ValueError):
    """The token {token!r:.80} is of {created_at:%Y-%m-%d %H:%M:%S}, outside the window.

    Whether it was counted before can no longer be told, so it is not counted now. Nothing was
    changed.

    Attributes:
        token: the given one.
        created_at: the time that the token carries.
    """

    token: object
    created_at: datetime


class RetryTransaction(CounterError, OperationalError):
    """The database cannot tell here whether {what} is done: roll back and try again.

    Raised under REPEATABLE READ and SERIALIZABLE, where a transaction does not see what another
    one has committed meanwhile. Nothing was counted.
    """

    what: str


class PartitionMissing(CounterError, DatabaseError):
    """The ledger has no partition for {created_at:%Y-%m-%d}: run manage.py counters upkeep
    partitions.

    Nothing was counted.
    """

    created_at: datetime


class LedgerIncomplete(CounterError, DatabaseError):
    """The ledger of {using!r} has {found} of {expected} entries in {partition}: restore the others,
    then run manage.py counters rebase. Nothing was changed.

    To accept the loss, delete the row of `CounterPartition` first. If that row says that the
    partition was dropped, drop its table instead.
    """

    using: str
    partition: str
    expected: int
    found: int


class LedgerFenced(CounterError, DatabaseError):
    """The ledger of {using!r} {reason}: run manage.py counters rebase.

    Raised after a dump was restored into another server: rolled-up entries cannot be told from
    others there. Nothing was changed.
    """

    using: str
    reason: str


class PositionGone(CounterError, LookupError):
    """The ledger cannot be followed from {position}: this position {reason}.

    Raised by `CounterDelta.objects.since` instead of leaving entries out.

    Attributes:
        position: where the reader is.
        reason: entries after it were dropped, a rebase came, or it is of another database.
    """

    position: str
    reason: str


class HistoryNotKept(CounterError, LookupError):
    """The history of {key} is kept from {since} on, and not before.

    Attributes:
        key: the counter, or the namespace or field whose periods were asked for.
        since: the first moment from which on all is there.
    """

    key: str
    since: datetime


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


class QuotaExceeded(CeilingExceeded):
    """{key} has {available} left of {ceiling} for this {period}, {requested} were requested.

    Raised by a change that would count more in a period than its quota. Nothing was changed.

    Attributes:
        key: the first counter without enough room.
        requested: how much was to be added to it.
        available: how much is left of that quota; a shorter period may have less left.
        ceiling: the quota of the period.
        period: ``"minute"``, ``"hour"``, ``"day"``, ``"week"`` or ``"month"``. Of several periods
            without enough room it is the one that ends last.
        resets_at: when that period ends and the next one begins with the whole quota.
        shortfalls: one `Shortfall` for each counter of the call without enough room.
    """

    key: str
    requested: int
    available: int
    ceiling: int
    period: str
    resets_at: datetime
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
    """{key} has no row in the database yet: save the instance first."""

    key: str


class RecordMissing(CounterError, ObjectDoesNotExist):
    """{key} has no row in the database (any more), so it can be neither counted nor read."""

    key: str


class Contention(CounterError):
    """{key} was refused {attempts} times by the database although its bounds admit the change.

    Other writers, a trigger or a row security policy come in between. Nothing was changed.
    """

    key: str
    attempts: int


class CounterUnavailable(CounterError, OperationalError):
    """The database {using!r} could not be reached: {reason}. Nothing was changed."""

    using: str
    reason: str


class ReadOnlyDatabase(CounterError, DatabaseError):
    """The database {using!r} or its transaction is read-only. Nothing was changed."""

    using: str


class FunctionDenied(CounterError, DatabaseError):
    """The role that connects to {using!r} may not execute {function}(). Grant EXECUTE on it.

    Nothing was counted. `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO site`, as the owner of
    the tables, grants all of them.
    """

    using: str
    function: str


class OutcomeUnknown(CounterError, OperationalError):
    """The answer of {using!r} was lost, so the outcome is not known.

    The connection was lost, or the call was cancelled or interrupted, when the statement or its
    COMMIT had been sent.

    The only error after which a repeated call may count twice. Nothing in this app repeats it by
    itself.
    """

    using: str


class InvalidAdjustment(CounterError, ValueError):
    """This cannot be adjusted: {problem}."""

    problem: str


class ValueChanged(CounterError):
    """{key} is {current} by now, not {expected}.

    Raised by an adjustment that was decided on by looking at another value. Nothing was changed.
    """

    key: str
    expected: int
    current: int


class ApprovalRequired(CounterError):
    """To adjust {key} by {delta:+} needs a second person: one alone may do up to {limit}.

    Nothing was changed.
    """

    key: str
    delta: int
    limit: int


class RequestDecided(CounterError):
    """Request {request} was {state} before, by {decider}.

    Nothing was changed.
    """

    request: int
    state: str
    decider: str


class InvalidPeriod(CounterError, ValueError):
    """{period!r} cannot be asked for: {known}."""

    period: object
    known: str


class LandingRefused(CounterError, DatabaseError):
    """Nothing may land in the database now: {reason}."""

    reason: str


class AssignmentIgnored(RuntimeWarning):
    """A number was assigned to a counter of a saved instance, and ``save()`` did not write it.

    With ``DEBUG`` alone. It names the line of the assignment.
    """
