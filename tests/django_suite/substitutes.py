"""What the models of Django's tests get in place of ``IntegerField`` and ``BigIntegerField``.

A counter is neither null nor a key, and the system checks say so. Such fields stay as they are.
"""

from __future__ import annotations

from typing import Any

from django.db import models

from django_counters.fields import CounterField, IntegerCounterField

_NO_COUNTERS = ("null", "primary_key", "unique")


def integer_field(*args: Any, **options: Any) -> models.Field[Any, Any]:
    """An `IntegerCounterField`, or an ``IntegerField`` where no counter can be."""
    if any(options.get(option) for option in _NO_COUNTERS):
        return models.IntegerField(*args, **options)
    # Django's tests ask what happens to a field that has no default.
    return IntegerCounterField(*args, **{"default": models.NOT_PROVIDED, **options})


def big_integer_field(*args: Any, **options: Any) -> models.Field[Any, Any]:
    """A `CounterField`, or a ``BigIntegerField`` where no counter can be."""
    if any(options.get(option) for option in _NO_COUNTERS):
        return models.BigIntegerField(*args, **options)
    return CounterField(*args, **{"default": models.NOT_PROVIDED, **options})
