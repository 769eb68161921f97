"""Exact counters that many servers change at once, the Django way.

Public names are resolved on first use, so that ``import django_counters`` needs
neither settings nor a loaded app registry.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_counters.adjustments.cases import AdjustedMany as AdjustedMany
    from django_counters.decimals import DecimalCounterField as DecimalCounterField
    from django_counters.exceptions import ApprovalRequired as ApprovalRequired
    from django_counters.exceptions import AssignmentIgnored as AssignmentIgnored
    from django_counters.exceptions import CeilingExceeded as CeilingExceeded
    from django_counters.exceptions import Contention as Contention
    from django_counters.exceptions import CounterError as CounterError
    from django_counters.exceptions import CounterOverflow as CounterOverflow
    from django_counters.exceptions import CounterUnavailable as CounterUnavailable
    from django_counters.exceptions import HistoryNotKept as HistoryNotKept
    from django_counters.exceptions import InitialOutOfBounds as InitialOutOfBounds
    from django_counters.exceptions import InsufficientCount as InsufficientCount
    from django_counters.exceptions import InvalidActor as InvalidActor
    from django_counters.exceptions import InvalidAdjustment as InvalidAdjustment
    from django_counters.exceptions import InvalidConfiguration as InvalidConfiguration
    from django_counters.exceptions import InvalidDelta as InvalidDelta
    from django_counters.exceptions import InvalidKey as InvalidKey
    from django_counters.exceptions import InvalidMoment as InvalidMoment
    from django_counters.exceptions import InvalidPeriod as InvalidPeriod
    from django_counters.exceptions import InvalidTags as InvalidTags
    from django_counters.exceptions import InvalidToken as InvalidToken
    from django_counters.exceptions import LedgerFenced as LedgerFenced
    from django_counters.exceptions import OutcomeUnknown as OutcomeUnknown
    from django_counters.exceptions import PartitionMissing as PartitionMissing
    from django_counters.exceptions import PositionGone as PositionGone
    from django_counters.exceptions import QuotaExceeded as QuotaExceeded
    from django_counters.exceptions import ReadOnlyDatabase as ReadOnlyDatabase
    from django_counters.exceptions import RecordMissing as RecordMissing
    from django_counters.exceptions import RequestDecided as RequestDecided
    from django_counters.exceptions import RetryTransaction as RetryTransaction
    from django_counters.exceptions import TokenConflict as TokenConflict
    from django_counters.exceptions import TokenExpired as TokenExpired
    from django_counters.exceptions import UnsavedInstance as UnsavedInstance
    from django_counters.exceptions import UnsupportedBounds as UnsupportedBounds
    from django_counters.exceptions import UnsupportedCondition as UnsupportedCondition
    from django_counters.exceptions import UnsupportedConsistency as UnsupportedConsistency
    from django_counters.exceptions import UnsupportedHistory as UnsupportedHistory
    from django_counters.exceptions import UnsupportedMaximum as UnsupportedMaximum
    from django_counters.exceptions import UnsupportedOption as UnsupportedOption
    from django_counters.exceptions import UnsupportedSeries as UnsupportedSeries
    from django_counters.exceptions import UnsupportedToken as UnsupportedToken
    from django_counters.exceptions import ValueChanged as ValueChanged
    from django_counters.exceptions import ValueNotKnown as ValueNotKnown
    from django_counters.fields import CachedCounterField as CachedCounterField
    from django_counters.fields import CounterField as CounterField
    from django_counters.fields import CounterValue as CounterValue
    from django_counters.fields import IntegerCounterField as IntegerCounterField
    from django_counters.querysets import CounterQuerySet as CounterQuerySet
    from django_counters.read.history import Explanation as Explanation
    from django_counters.tokens import Token as Token
    from django_counters.tokens import token_of as token_of
    from django_counters.types import Reading as Reading
    from django_counters.types import short_key as short_key
    from django_counters.values import Appended as Appended
    from django_counters.values import Counted as Counted
    from django_counters.values import CountedMany as CountedMany
    from django_counters.values import LedgerPage as LedgerPage
    from django_counters.values import Result as Result
    from django_counters.values import Unknown as Unknown

__version__ = "0.1.0"

_HOMES = {
    "AdjustedMany": "adjustments.cases",
    "Appended": "values",
    "ApprovalRequired": "exceptions",
    "AssignmentIgnored": "exceptions",
    "CachedCounterField": "fields",
    "CeilingExceeded": "exceptions",
    "Contention": "exceptions",
    "Counted": "values",
    "CountedMany": "values",
    "CounterError": "exceptions",
    "CounterField": "fields",
    "CounterOverflow": "exceptions",
    "CounterQuerySet": "querysets",
    "CounterUnavailable": "exceptions",
    "CounterValue": "fields",
    "DecimalCounterField": "decimals",
    "Explanation": "read.history",
    "HistoryNotKept": "exceptions",
    "InitialOutOfBounds": "exceptions",
    "InsufficientCount": "exceptions",
    "IntegerCounterField": "fields",
    "InvalidAdjustment": "exceptions",
    "InvalidConfiguration": "exceptions",
    "InvalidDelta": "exceptions",
    "InvalidKey": "exceptions",
    "InvalidActor": "exceptions",
    "InvalidMoment": "exceptions",
    "InvalidPeriod": "exceptions",
    "InvalidTags": "exceptions",
    "InvalidToken": "exceptions",
    "LedgerFenced": "exceptions",
    "LedgerPage": "values",
    "OutcomeUnknown": "exceptions",
    "PartitionMissing": "exceptions",
    "PositionGone": "exceptions",
    "QuotaExceeded": "exceptions",
    "ReadOnlyDatabase": "exceptions",
    "Reading": "types",
    "RecordMissing": "exceptions",
    "RequestDecided": "exceptions",
    "Result": "values",
    "RetryTransaction": "exceptions",
    "Token": "tokens",
    "TokenConflict": "exceptions",
    "TokenExpired": "exceptions",
    "Unknown": "values",
    "UnsavedInstance": "exceptions",
    "UnsupportedBounds": "exceptions",
    "UnsupportedCondition": "exceptions",
    "UnsupportedConsistency": "exceptions",
    "UnsupportedHistory": "exceptions",
    "UnsupportedMaximum": "exceptions",
    "UnsupportedOption": "exceptions",
    "UnsupportedSeries": "exceptions",
    "UnsupportedToken": "exceptions",
    "ValueChanged": "exceptions",
    "ValueNotKnown": "exceptions",
    "short_key": "types",
    "token_of": "tokens",
}

__all__ = [*sorted(_HOMES), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
