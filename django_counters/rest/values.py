"""The fields of requests. They convert nothing: a value has the right type, or is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from django_counters.measure import MOST_TAGS, TAG_LENGTH
from django_counters.types import INT8

_LOW, _HIGH = INT8
_INT8 = {"type": "integer", "format": "int64", "minimum": _LOW, "maximum": _HIGH}


@extend_schema_field(_INT8)
class WholeNumber(serializers.Field[int, Any, int, Any]):
    """An integer of 64 bits, written as one: no text, no ``3.0``, no ``true``."""

    default_error_messages = {
        "invalid": "A whole number is needed.",
        "range": "It does not fit into 64 bits.",
    }

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        if not _LOW <= data <= _HIGH:
            self.fail("range")
        return data

    def to_representation(self, value: int) -> int:
        return value


@extend_schema_field({"type": "integer"})
class Value(WholeNumber):
    """A value of a counter. The sum of a ledger or of shards may be more than 64 bits."""


@extend_schema_field({**_INT8, "minimum": 1})
class Amount(WholeNumber):
    """The amount of a change: one or more."""

    default_error_messages = {"least": "It is at least 1."}

    def to_internal_value(self, data: Any) -> int:
        amount = super().to_internal_value(data)
        if amount < 1:
            self.fail("least")
        return amount


class Text(serializers.CharField):
    """A text, and no other value that Django could convert to one."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Digits(serializers.IntegerField):
    """A number in an address: digits, and nothing that Django could convert to them."""

    def to_internal_value(self, data: Any) -> int:
        if not (isinstance(data, str) and data.isascii() and data.isdecimal()):
            self.fail("invalid")
        return super().to_internal_value(data)


class Word(serializers.ChoiceField):
    """One of a few words."""


class Several(serializers.ListField):
    """A list. If it is too long, its items are not validated: the errors would be as long."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, list):
            self.run_validators(data)
        found: list[Any] = super().to_internal_value(data)
        return found


@extend_schema_field({"type": "string", "format": "date-time"})
class Moment(serializers.DateTimeField):
    """ISO 8601 with an offset: without one, the moment is not known."""

    default_error_messages = {
        "naive": "An offset is needed, as in 2026-03-01T12:00:00Z or 2026-03-01T13:00:00+01:00."
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(input_formats=["iso-8601"], **options)

    def enforce_timezone(self, value: datetime) -> datetime:
        if value.tzinfo is None:
            self.fail("naive")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            self.fail("overflow")


_TAG_VALUE = {"oneOf": [{"type": "string", "maxLength": TAG_LENGTH, "nullable": True}, _INT8]}


class TagValue(serializers.Field[Any, Any, Any, Any]):
    """A text, or an integer, which is counted as its text; null for no value."""

    default_error_messages = {
        "invalid": "A text or a whole number is needed.",
        "long": f"It has more than {TAG_LENGTH} characters.",
    }

    def to_internal_value(self, data: Any) -> str | int:
        if type(data) not in (str, int):
            self.fail("invalid")
        if isinstance(data, str) and len(data) > TAG_LENGTH:
            self.fail("long")
        if isinstance(data, int) and not _LOW <= data <= _HIGH:
            self.fail("invalid")
        return data  # type: ignore[no-any-return]


@extend_schema_field(
    {"type": "object", "maxProperties": MOST_TAGS, "additionalProperties": _TAG_VALUE}
)
class Tags(serializers.DictField):
    """Values by the names of tags. If there are too many, the values are not validated."""

    default_error_messages = {
        "many": f"There are at most {MOST_TAGS} tags.",
        "name": f"The name of a tag has at most {TAG_LENGTH} characters.",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(child=TagValue(allow_null=True), **options)

    def to_internal_value(self, data: Any) -> dict[str, str | int | None]:
        if isinstance(data, dict):
            if len(data) > MOST_TAGS:
                self.fail("many")
            if any(len(name) > TAG_LENGTH for name in data):
                self.fail("name")
        found: dict[str, str | int | None] = super().to_internal_value(data)
        return found
