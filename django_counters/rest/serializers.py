"""The serializer field of counter fields. The app imports it when it is ready."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from django_counters.tables.total import TotalField

# Of 64 bits there are 19.
_DIGITS = 19
_SHOWN = ("label", "help_text", "style", "source")


class CounterSerializerField(serializers.IntegerField):
    """A read-only counter: ``save()`` would not write the number that a client sent."""

    def __new__(cls, **kwargs: Any) -> Any:
        """Make the field of decimals if the model's field has decimal places."""
        if kwargs.get("decimal_places"):
            return DecimalCounterSerializerField(**kwargs)
        return super().__new__(cls, **kwargs)

    def __init__(self, **kwargs: Any) -> None:
        # The other options are about input.
        given = {name: kwargs[name] for name in _SHOWN if name in kwargs}
        super().__init__(**given, read_only=True)


class DecimalCounterSerializerField(serializers.DecimalField):
    """A read-only counter with decimal places: a text, as other decimals are."""

    def __init__(self, *, decimal_places: int, **kwargs: Any) -> None:
        given = {name: kwargs[name] for name in _SHOWN if name in kwargs}
        super().__init__(_DIGITS, decimal_places, **given, read_only=True)


_MAPPING: Any = serializers.ModelSerializer.serializer_field_mapping
_MAPPING[TotalField] = CounterSerializerField
