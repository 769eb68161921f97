"""Bodies of requests and answers, their fields and parser, and the schema of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import IO, Any, TypeVar

from drf_spectacular.extensions import OpenApiSerializerExtension, OpenApiSerializerFieldExtension
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    extend_schema,
    extend_schema_field,
    extend_schema_view,
)
from rest_framework import negotiation, serializers
from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from django_counters.event import MOST_TAGS, TAG_LENGTH
from django_counters.rest.actors import WHO_LENGTH
from django_counters.rest.problems import CONTENT_TYPE, ApiError, TooLarge
from django_counters.tokens import TOKEN_LENGTH
from django_counters.types import INT8, KEY_LENGTH

# Fields. They convert nothing: a value has the right type, or is refused.

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


# The parser: JSON of a limited size without duplicate names.

# Bytes. 500 keys of 200 characters need most of it.
LARGEST = 512 * 1024


class StrictJSONParser(BaseParser):
    """Parses JSON as RFC 8259 has it. Refuses duplicate names, whose meaning is unclear."""

    media_type = "application/json"

    def parse(self, stream: IO[Any], *_: Any, **__: Any) -> Any:
        """The body.

        Raises:
            TooLarge: it has more than half a megabyte.
            ParseError: it is not JSON.
        """
        body = stream.read(LARGEST + 1)
        if len(body) > LARGEST:
            raise TooLarge(LARGEST)
        try:
            found = json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_no_number)
            if b"\\u" in body:
                # An escape may be half a character, which can neither be kept nor be answered.
                json.dumps(found, ensure_ascii=False).encode()
            return found
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is no JSON: {error}") from None


def check_carried(request: Request) -> None:
    """Refuse a body that REST framework would ignore: an ignored body is a count of one.

    Raises:
        Refused: it has no length.
        UnsupportedMediaType: it is not JSON, or compressed.
    """
    meta = request.META  # faster than ``headers``, which are built for each request
    encoding = meta.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType(encoding, "The body is to be sent as it is, not compressed.")
    length = meta.get("CONTENT_LENGTH")
    if not length and meta.get("HTTP_TRANSFER_ENCODING"):
        raise ApiError(411, "length-required", "Say how long the body is, in Content-Length.")
    parser = OnlyJSON().select_parser(request, request.parsers or ())
    if length not in (None, "", "0") and parser is None:
        raise UnsupportedMediaType(str(request.content_type))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


class OnlyJSON(negotiation.BaseContentNegotiation):
    """Answers in JSON, whatever the client accepts."""

    def select_parser(self, request: Request, parsers: Iterable[Any]) -> Any:
        """The parser for the type of the body, if there is one."""
        given = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == given), None)

    def select_renderer(self, _: Request, renderers: Any, *__: Any) -> tuple[BaseRenderer, str]:
        """The first renderer."""
        return renderers[0], renderers[0].media_type


# Bodies and parameters.

_View = TypeVar("_View", bound=type[Any])
MOST_ITEMS = 500
# Unknown fields that one error names.
MOST_UNKNOWN = 5
# Counters in one page of a list.
MOST_LISTED = 500
# Of 200 characters with four bytes each, in base64.
CURSOR_LENGTH = 1067


class Described(serializers.Serializer[Any]):
    """An object of the schema."""


class Body(Described):
    """An object with these fields and no others: a misspelt field must not be ignored."""

    default_error_messages = {"null": "An object is needed."}

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = islice((name for name in data if name not in self.fields), MOST_UNKNOWN)
            if problems := {str(name): ["Unknown field."] for name in unknown}:
                raise serializers.ValidationError(problems)
        return super().to_internal_value(data)


class _Components(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Prefixes names of components, which share a document with those of the project."""

    target_class = Described
    match_subclasses = True

    def get_name(self, *_: Any, **__: Any) -> str:
        return f"Counter{type(self.target).__name__}"

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        found = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        return {**found, "additionalProperties": False} if isinstance(self.target, Body) else found


class _Words(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Names enumerations, which would else be named by their fields, as those of the project."""

    target_class = Word

    def get_name(self) -> str:
        field = self.target
        return f"Counter{type(field.parent).__name__}{field.field_name.capitalize()}"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"type": "string", "enum": list(self.target.choices)}


@cache
def checker(body: type[Body]) -> Body:
    """The one serializer that validates all bodies of a kind.

    A new one for each body takes ten times as long, because it copies its fields. Only
    ``run_validation`` may be called: unlike ``is_valid``, it keeps no data.
    """
    made = body()
    assert made.fields  # builds them now, before several threads do
    return made


def queried(query: type[Body], lists: Mapping[str, list[str]]) -> dict[str, Any]:
    """The parameters of an address. Each may be given once, except ``by``.

    Raises:
        ValidationError: a parameter is unknown or invalid.
    """
    given: dict[str, Any] = {}
    for name, values in lists.items():
        if name == "by":
            given[name] = [tag for value in values for tag in value.split(",")]
        elif len(values) > 1 and name in checker(query).fields:
            raise serializers.ValidationError({name: ["It is there twice."]})
        else:
            given[name] = values[-1]
    valid: dict[str, Any] = checker(query).run_validation(given)
    return valid


class CircumstancesBody(Body):
    """What a change is counted by, and when it happened: of counters with periods."""

    tags = Tags(required=False)
    at = Moment(required=False, help_text="When it happened. Needs a login.")
    who = Text(
        required=False,
        min_length=1,
        max_length=WHO_LENGTH,
        trim_whitespace=False,
        help_text="An identifier of the visitor, if distinct actors are counted.",
    )


class ChangeBody(CircumstancesBody):
    """By how much to count: ``{"by": 3}``; an empty body counts one."""

    by = Amount(default=1)


class ItemBody(Body):
    """One counter of many, and by how much to count."""

    key = Text(min_length=1, max_length=KEY_LENGTH, trim_whitespace=False)
    by = Amount(default=1)


class ChangeManyBody(CircumstancesBody):
    """Counters, each of them once. Tags, a moment and who it is are those of all of them."""

    counters = Several(child=ItemBody(), min_length=1, max_length=MOST_ITEMS)

    def validate_counters(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Refuse one that is there twice: it is a mistake, and nobody knows which one."""
        if len({item["key"] for item in items}) < len(items):
            raise serializers.ValidationError("A counter is there twice.")
        return items


class ReadManyBody(Body):
    """Which counters to read, and how."""

    keys = Several(
        child=Text(min_length=1, max_length=KEY_LENGTH, trim_whitespace=False),
        min_length=1,
        max_length=MOST_ITEMS,
    )
    consistency = Word(choices=["cached", "exact"], default="cached")


class PageQuery(Body):
    """The parameters of a page of a list."""

    namespace = Text(max_length=KEY_LENGTH)
    limit = Digits(min_value=1, max_value=MOST_LISTED, default=100)
    cursor = Text(max_length=CURSOR_LENGTH, required=False, trim_whitespace=False)


class ListQuery(PageQuery):
    """The parameters of a list of counters."""

    prefix = Text(max_length=KEY_LENGTH, default="", allow_blank=True, trim_whitespace=False)


# Answers.


class ReadingAnswer(Described):
    """A value and its parts."""

    key = serializers.CharField()
    value = Value()
    as_of = serializers.DateTimeField()
    consistency = Word(choices=["exact", "cached", "landed"])


class ListAnswer(Described):
    """A page of a list. There is no way back, so previous is always null."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.CharField(allow_null=True)
    results = ReadingAnswer(many=True)


class ChangeAnswer(Described):
    """A change. The value is null where counting reads none, as in a ledger."""

    key = serializers.CharField()
    value = Value(allow_null=True)
    applied = WholeNumber()
    as_of = serializers.DateTimeField()
    consistency = Word(choices=["exact", "cached", "unknown"])
    replayed = serializers.BooleanField()


class ChangeManyAnswer(Described):
    """Changes that were made together."""

    counters = ChangeAnswer(many=True)
    replayed = serializers.BooleanField()


class ReadManyAnswer(Described):
    """Values, and the keys of which there is nothing to be told."""

    counters = ReadingAnswer(many=True)
    unknown = serializers.ListField(child=serializers.CharField())


class ProblemItem(Described):
    """What is wrong with one field."""

    field = serializers.CharField(allow_blank=True)
    detail = serializers.CharField()


class Problem(Described):
    """RFC 9457. More fields depend on the type; the documentation lists them."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    request_id = serializers.CharField()
    errors = ProblemItem(many=True, required=False)  # type: ignore[assignment]
    retry_after = serializers.IntegerField(required=False, help_text="Seconds, as in Retry-After.")


# The schema.

KEY = OpenApiParameter(
    "key",
    {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH},
    OpenApiParameter.PATH,
    description="`<namespace>:<name>`, or `<app>.<Model>.<field>:<primary key>`.",
)


def once(*, required: bool = False) -> OpenApiParameter:
    """The Idempotency-Key of a request."""
    return OpenApiParameter(
        "Idempotency-Key",
        {"type": "string", "minLength": 1, "maxLength": TOKEN_LENGTH},
        OpenApiParameter.HEADER,
        required=required,
        description="Names this request: it is done once, however often it is sent.",
    )


def described(
    name: str,
    answer: type[Described],
    *parameters: Any,
    body: type[Body] | None = None,
    asks: type[Described] | None = None,
    sends: Mapping[str, Any] | None = None,
) -> Callable[[_View], _View]:
    """Describe a view in the schema. Its texts are the docstrings of the view and its method.

    Args:
        asks: the answer if a second person is asked instead (202).
        sends: an example of the body.
    """

    def decorate(view: _View) -> _View:
        problems = {(status, CONTENT_TYPE): Problem for status in ("4XX", "503", "504")}
        schema = extend_schema(
            operation_id=f"counters_{name}",
            summary=(view.__doc__ or "").splitlines()[0],
            tags=["counters"],
            request=body,
            parameters=list(parameters),
            responses={200: answer, **({202: asks} if asks else {}), **problems},
            examples=[OpenApiExample("request", sends, request_only=True)] if sends else None,
        )
        described_view: _View = extend_schema_view(**{"post" if body else "get": schema})(view)
        return described_view

    return decorate
