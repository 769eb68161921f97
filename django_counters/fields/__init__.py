"""Counters in the rows of the project's own models."""

from django_counters.fields.columns import (
    CachedCounterField,
    CounterAttribute,
    CounterField,
    IntegerCounterField,
    counter_fields,
)
from django_counters.fields.receivers import follow_deletes as _follow_deletes  # noqa: F401
from django_counters.fields.values import CounterOf, CounterValue

__all__ = [
    "CachedCounterField",
    "CounterAttribute",
    "CounterField",
    "CounterOf",
    "CounterValue",
    "IntegerCounterField",
    "counter_fields",
]
