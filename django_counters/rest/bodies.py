"""The bodies of requests and answers. drf-spectacular makes the schema of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiSerializerExtension, OpenApiSerializerFieldExtension
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    extend_schema,
    extend_schema_view,
)
from rest_framework import serializers

from django_counters.calendar import PERIODS
from django_counters.measure import MOST_TAGS, TAG_LENGTH
from django_counters.read.top import MOST_BEFORE
from django_counters.rest.actors import WHO_LENGTH
from django_counters.rest.problems import CONTENT_TYPE
from django_counters.rest.values import (
    Amount,
    Digits,
    Moment,
    Several,
    Tags,
    Text,
    Value,
    WholeNumber,
    Word,
)
from django_counters.tokens import TOKEN_LENGTH
from django_counters.types import KEY_LENGTH

_View = TypeVar("_View", bound=type[Any])
MOST_ITEMS = 500
# Unknown fields that one error names.
MOST_UNKNOWN = 5
# Counters in an answer of the top, and in one page of a list.
MOST_RANKED = 100
MOST_LISTED = 500
# Of 200 characters with four bytes each, in base64.
CURSOR_LENGTH = 1067

# Bodies and parameters.


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


PARTIAL = "Whether counts that are stored answer if earlier ones are not kept."


class SeriesQuery(Body):
    """The parameters of a series, except those that begin with ``where.``."""

    per = Word(choices=PERIODS, required=False)
    last = serializers.RegexField(
        r"^([1-9][0-9]{0,4}|[1-9][0-9]{0,8}[mhdw])$",
        required=False,
        max_length=10,
        help_text="So many periods, or back from now, as in 90m, 12h, 30d or 4w.",
    )
    since = Moment(required=False)
    until = Moment(required=False)
    tz = Text(max_length=60, required=False)
    by = Several(
        child=Text(min_length=1, max_length=TAG_LENGTH), max_length=MOST_TAGS, required=False
    )
    partial = Word(choices=["true", "false"], required=False, help_text=PARTIAL)  # type: ignore[assignment]

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "last" in attrs and ("since" in attrs or "until" in attrs):
            raise serializers.ValidationError({"last": ["Give either 'last' or 'since'."]})
        if "until" in attrs and "since" not in attrs:
            raise serializers.ValidationError({"until": ["It needs a 'since'."]})
        return attrs


class TopQuery(Body):
    """The parameters of those who have counted most."""

    namespace = Text(max_length=KEY_LENGTH)
    per = Word(choices=PERIODS)
    n = Digits(min_value=1, max_value=MOST_RANKED, default=10)
    against = Digits(min_value=1, max_value=MOST_BEFORE, required=False)
    partial = Word(choices=["true", "false"], default="false", help_text=PARTIAL)  # type: ignore[assignment]


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


class PointAnswer(Described):
    """One period: the value at its end, and by how much it changed."""

    moment = serializers.DateTimeField()
    value = Value()
    change = Value()


class HistoryAnswer(Described):
    """How a counter went."""

    key = serializers.CharField()
    by = Word(choices=PERIODS[1:])
    source = Word(choices=["ledger", "counted", "recorded", "none"])  # type: ignore[assignment]
    points = PointAnswer(many=True)


class CountedItem(Described):
    """What was counted in one period, and when that begins and ends."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    value = Value()


class SplitItem(Described):
    """What was counted with the same values of tags: "~" for all others, null for none."""

    tags = serializers.DictField(child=serializers.CharField(allow_null=True))
    total = Value()
    points = CountedItem(many=True)


class SeriesAnswer(Described):
    """What was counted over time; by tag, where that is asked for. The largest split is first."""

    key = serializers.CharField()
    per = Word(choices=PERIODS, allow_null=True)
    tz = serializers.CharField(allow_null=True)
    as_of = serializers.DateTimeField(allow_null=True)
    total = Value()
    points = CountedItem(many=True)
    splits = SplitItem(many=True, required=False)


class DistinctItem(Described):
    """How many distinct actors. The error is relative: the standard error of an estimate."""

    value = Value()
    exact = serializers.BooleanField()
    error = serializers.FloatField()


class UniquePointItem(DistinctItem):
    """How many there were in one period."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class UniqueSplitItem(DistinctItem):
    """How many came with the same values of tags: "~" for all others, null for none."""

    tags = serializers.DictField(child=serializers.CharField(allow_null=True))


class UniqueAnswer(DistinctItem):
    """Distinct actors of all of the time, of each period, and by tag. They cannot be added up."""

    key = serializers.CharField()
    per = Word(choices=PERIODS, allow_null=True)
    tz = serializers.CharField(allow_null=True)
    as_of = serializers.DateTimeField(allow_null=True)
    points = UniquePointItem(many=True)
    splits = UniqueSplitItem(many=True, required=False)


class RankedItem(Described):
    """A counter, what it has counted in the period, and in the one that it is compared with."""

    key = serializers.CharField()
    value = Value()
    before = Value(allow_null=True)


class TopAnswer(Described):
    """The counters that have counted most, or risen most, the first one first."""

    namespace = serializers.CharField()
    per = Word(choices=PERIODS)
    as_of = serializers.DateTimeField(allow_null=True)
    counters = RankedItem(many=True)


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
PERIOD = OpenApiParameter("by", str, enum=PERIODS[1:], default="hour")
WHERE = OpenApiParameter(
    "where",
    {"type": "object", "additionalProperties": {"type": "string", "maxLength": TAG_LENGTH}},
    description="Values of tags: each is a parameter `where.<tag>`.",
    style="form",
    explode=True,
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
