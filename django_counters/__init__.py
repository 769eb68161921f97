"""Exact counters that many servers change at once, the Django way.

Public names are resolved on first use, so that ``import django_counters`` needs
neither settings nor a loaded app registry.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_counters.exceptions import CeilingExceeded as CeilingExceeded
    from django_counters.exceptions import Contention as Contention
    from django_counters.exceptions import CounterError as CounterError
    from django_counters.exceptions import CounterOverflow as CounterOverflow
    from django_counters.exceptions import CounterUnavailable as CounterUnavailable
    from django_counters.exceptions import InitialOutOfBounds as InitialOutOfBounds
    from django_counters.exceptions import InsufficientCount as InsufficientCount
    from django_counters.exceptions import InvalidConfiguration as InvalidConfiguration
    from django_counters.exceptions import InvalidDelta as InvalidDelta
    from django_counters.exceptions import InvalidKey as InvalidKey
    from django_counters.exceptions import OutcomeUnknown as OutcomeUnknown
    from django_counters.exceptions import ReadOnlyDatabase as ReadOnlyDatabase
    from django_counters.exceptions import RecordMissing as RecordMissing
    from django_counters.exceptions import UnsavedInstance as UnsavedInstance
    from django_counters.exceptions import UnsupportedBounds as UnsupportedBounds
    from django_counters.exceptions import UnsupportedConsistency as UnsupportedConsistency
    from django_counters.exceptions import ValueNotKnown as ValueNotKnown
    from django_counters.fields import CounterField as CounterField
    from django_counters.fields import CounterValue as CounterValue
    from django_counters.fields import IntegerCounterField as IntegerCounterField
    from django_counters.querysets import CounterQuerySet as CounterQuerySet
    from django_counters.types import Reading as Reading
    from django_counters.types import short_key as short_key

__version__ = "0.1.0"

_HOMES = {
    "CeilingExceeded": "exceptions",
    "Contention": "exceptions",
    "CounterError": "exceptions",
    "CounterField": "fields",
    "CounterOverflow": "exceptions",
    "CounterQuerySet": "querysets",
    "CounterUnavailable": "exceptions",
    "CounterValue": "fields",
    "InitialOutOfBounds": "exceptions",
    "InsufficientCount": "exceptions",
    "IntegerCounterField": "fields",
    "InvalidConfiguration": "exceptions",
    "InvalidDelta": "exceptions",
    "InvalidKey": "exceptions",
    "OutcomeUnknown": "exceptions",
    "ReadOnlyDatabase": "exceptions",
    "Reading": "types",
    "RecordMissing": "exceptions",
    "UnsavedInstance": "exceptions",
    "UnsupportedBounds": "exceptions",
    "UnsupportedConsistency": "exceptions",
    "ValueNotKnown": "exceptions",
    "short_key": "types",
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
