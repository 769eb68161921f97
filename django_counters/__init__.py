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
    from django_counters.errors import ApprovalRequired as ApprovalRequired
    from django_counters.errors import AssignmentIgnored as AssignmentIgnored
    from django_counters.errors import CeilingExceeded as CeilingExceeded
    from django_counters.errors import Contention as Contention
    from django_counters.errors import CounterError as CounterError
    from django_counters.errors import CounterOverflow as CounterOverflow
    from django_counters.errors import CounterUnavailable as CounterUnavailable
    from django_counters.errors import HistoryNotKept as HistoryNotKept
    from django_counters.errors import InitialOutOfBounds as InitialOutOfBounds
    from django_counters.errors import InsufficientCount as InsufficientCount
    from django_counters.errors import InvalidActor as InvalidActor
    from django_counters.errors import InvalidAdjustment as InvalidAdjustment
    from django_counters.errors import InvalidConfiguration as InvalidConfiguration
    from django_counters.errors import InvalidDelta as InvalidDelta
    from django_counters.errors import InvalidKey as InvalidKey
    from django_counters.errors import InvalidMoment as InvalidMoment
    from django_counters.errors import InvalidPeriod as InvalidPeriod
    from django_counters.errors import InvalidTags as InvalidTags
    from django_counters.errors import InvalidToken as InvalidToken
    from django_counters.errors import LedgerFenced as LedgerFenced
    from django_counters.errors import OutcomeUnknown as OutcomeUnknown
    from django_counters.errors import PartitionMissing as PartitionMissing
    from django_counters.errors import PositionGone as PositionGone
    from django_counters.errors import QuotaExceeded as QuotaExceeded
    from django_counters.errors import ReadOnlyDatabase as ReadOnlyDatabase
    from django_counters.errors import RecordMissing as RecordMissing
    from django_counters.errors import RequestDecided as RequestDecided
    from django_counters.errors import RetryTransaction as RetryTransaction
    from django_counters.errors import TokenConflict as TokenConflict
    from django_counters.errors import TokenExpired as TokenExpired
    from django_counters.errors import UnsavedInstance as UnsavedInstance
    from django_counters.errors import UnsupportedBounds as UnsupportedBounds
    from django_counters.errors import UnsupportedCondition as UnsupportedCondition
    from django_counters.errors import UnsupportedConsistency as UnsupportedConsistency
    from django_counters.errors import UnsupportedHistory as UnsupportedHistory
    from django_counters.errors import UnsupportedMaximum as UnsupportedMaximum
    from django_counters.errors import UnsupportedOption as UnsupportedOption
    from django_counters.errors import UnsupportedSeries as UnsupportedSeries
    from django_counters.errors import UnsupportedToken as UnsupportedToken
    from django_counters.errors import ValueChanged as ValueChanged
    from django_counters.errors import ValueNotKnown as ValueNotKnown
    from django_counters.fields import CachedCounterField as CachedCounterField
    from django_counters.fields import CounterField as CounterField
    from django_counters.fields import CounterValue as CounterValue
    from django_counters.fields import IntegerCounterField as IntegerCounterField
    from django_counters.querysets import CounterQuerySet as CounterQuerySet
    from django_counters.reading import Explanation as Explanation
    from django_counters.tokens import Token as Token
    from django_counters.tokens import token_of as token_of
    from django_counters.types import Appended as Appended
    from django_counters.types import Counted as Counted
    from django_counters.types import CountedMany as CountedMany
    from django_counters.types import LedgerPage as LedgerPage
    from django_counters.types import Reading as Reading
    from django_counters.types import Result as Result
    from django_counters.types import Unknown as Unknown
    from django_counters.types import short_key as short_key

__version__ = "0.1.0"

_HOMES = {
    "AdjustedMany": "adjustments.cases",
    "Appended": "types",
    "ApprovalRequired": "errors",
    "AssignmentIgnored": "errors",
    "CachedCounterField": "fields",
    "CeilingExceeded": "errors",
    "Contention": "errors",
    "Counted": "types",
    "CountedMany": "types",
    "CounterError": "errors",
    "CounterField": "fields",
    "CounterOverflow": "errors",
    "CounterQuerySet": "querysets",
    "CounterUnavailable": "errors",
    "CounterValue": "fields",
    "DecimalCounterField": "decimals",
    "Explanation": "reading",
    "HistoryNotKept": "errors",
    "InitialOutOfBounds": "errors",
    "InsufficientCount": "errors",
    "IntegerCounterField": "fields",
    "InvalidAdjustment": "errors",
    "InvalidConfiguration": "errors",
    "InvalidDelta": "errors",
    "InvalidKey": "errors",
    "InvalidActor": "errors",
    "InvalidMoment": "errors",
    "InvalidPeriod": "errors",
    "InvalidTags": "errors",
    "InvalidToken": "errors",
    "LedgerFenced": "errors",
    "LedgerPage": "types",
    "OutcomeUnknown": "errors",
    "PartitionMissing": "errors",
    "PositionGone": "errors",
    "QuotaExceeded": "errors",
    "ReadOnlyDatabase": "errors",
    "Reading": "types",
    "RecordMissing": "errors",
    "RequestDecided": "errors",
    "Result": "types",
    "RetryTransaction": "errors",
    "Token": "tokens",
    "TokenConflict": "errors",
    "TokenExpired": "errors",
    "Unknown": "types",
    "UnsavedInstance": "errors",
    "UnsupportedBounds": "errors",
    "UnsupportedCondition": "errors",
    "UnsupportedConsistency": "errors",
    "UnsupportedHistory": "errors",
    "UnsupportedMaximum": "errors",
    "UnsupportedOption": "errors",
    "UnsupportedSeries": "errors",
    "UnsupportedToken": "errors",
    "ValueChanged": "errors",
    "ValueNotKnown": "errors",
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
