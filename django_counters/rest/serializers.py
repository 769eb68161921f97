"""The serializer field of counter fields. The app imports it when it is ready."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from django_counters.tables.total import TotalField

_SHOWN = ("label", "help_text", "style", "source")


class CounterSerializerField(serializers.IntegerField):
    """A read-only counter: ``save()`` would not write the number that a client sent."""

    def __init__(self, **kwargs: Any) -> None:
        # The other options are about input.
        given = {name: kwargs[name] for name in _SHOWN if name in kwargs}
        super().__init__(**given, read_only=True)


serializers.ModelSerializer.serializer_field_mapping[TotalField] = CounterSerializerField
