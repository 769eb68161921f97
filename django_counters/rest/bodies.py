"""The bodies of requests and of answers, as serializers that also describe them for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any, ClassVar

from rest_framework import serializers

from django_counters.calendar import PERIODS
from django_counters.rest.actors import WHO_LENGTH
from django_counters.rest.values import (
    Amount,
    Minutes,
    Moment,
    Several,
    Tags,
    Text,
    Value,
    WholeNumber,
    Word,
)
from django_counters.tables.adjustment import CASE_LENGTH, LEAST_REASON, REASON_LENGTH
from django_counters.tables.hold import NAME_LENGTH as NOTE_LENGTH
from django_counters.tokens import TOKEN_LENGTH
from django_counters.types import KEY_LENGTH

MOST_ITEMS = 500
# Unknown fields that one error names.
MOST_UNKNOWN = 5


class Described(serializers.Serializer[Any]):
    """An object of the schema.

    Attributes:
        says: what the schema says of the object, in addition to its fields.
        of_fields: what it says of fields, in addition to what they say themselves.
    """

    says: ClassVar[Mapping[str, Any]] = {}
    of_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {}


class Body(Described):
    """An object with these fields and no others: a misspelt field must not be ignored."""

    says = {"additionalProperties": False}
    default_error_messages = {"null": "An object is needed."}

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = islice((name for name in data if name not in self.fields), MOST_UNKNOWN)
            if problems := {str(name): ["Unknown field."] for name in unknown}:
                raise serializers.ValidationError(problems)
        return super().to_internal_value(data)


@cache
def checker(body: type[Body]) -> Body:
    """The one serializer that validates all bodies of a kind.

    A new one for each body takes ten times as long, because it copies its fields. Only
    ``run_validation`` may be called: unlike ``is_valid``, it keeps no data.
    """
    made = body()
    assert made.fields  # builds them now, before several threads do
    return made


class CircumstancesBody(Body):
    """What a change is counted by, and when it happened: of counters with periods."""

    of_fields = {
        "tags": {
            "description": "The tags that it is counted by. An integer is counted as its text."
        },
        "at": {"description": "When it happened; now, where it is not given. Needs a login."},
    }

    tags = Tags(required=False)
    at = Moment(required=False)


_WHO = {
    "who": {
        "minLength": 1,
        "description": (
            "Who it is, where actors are counted: an identifier of a visitor who is not logged in,"
            " such as that of a cookie. Users are known by their login; who may adjust the counter"
            " may name anybody. Of a decrement: where each actor counts once."
        ),
    }
}


class ChangeBody(CircumstancesBody):
    """By how much to count: ``{"by": 3}``; an empty body counts one."""

    of_fields = {**CircumstancesBody.of_fields, **_WHO}

    by = Amount(default=1)
    who = Text(required=False, max_length=WHO_LENGTH, trim_whitespace=False)


_TOKEN = {"token": {"minLength": 1, "description": "The Idempotency-Key of the hold."}}


class HoldBody(Body):
    """How much to hold, and for how many minutes."""

    quantity = Amount(default=1)
    minutes = Minutes(default=15)
    note = Text(default="", allow_blank=True, max_length=NOTE_LENGTH)


class ReleaseBody(Body):
    """Which hold."""

    of_fields = _TOKEN

    token = Text(max_length=TOKEN_LENGTH, trim_whitespace=False)


class CommitBody(ReleaseBody):
    """Which hold to sell, and how much of it, if not all."""

    quantity = Amount(required=False)


class ExtendBody(ReleaseBody):
    """Which hold to keep, and for how many minutes from now."""

    minutes = Minutes(default=15)


class ItemBody(Body):
    """One counter of many, and by how much to count."""

    of_fields = {"key": {"minLength": 1}}

    key = Text(max_length=KEY_LENGTH, trim_whitespace=False)
    by = Amount(default=1)


class ChangeManyBody(CircumstancesBody):
    """Counters, each of them once. Tags, a moment and who it is are those of all of them."""

    of_fields = {
        **CircumstancesBody.of_fields,
        **_WHO,
        "counters": {"minItems": 1, "uniqueItems": True},
    }

    who = Text(required=False, max_length=WHO_LENGTH, trim_whitespace=False)
    counters = Several(child=ItemBody(), allow_empty=False, max_length=MOST_ITEMS)

    def validate_counters(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Refuse one that is there twice: it is a mistake, and nobody knows which one."""
        if len({item["key"] for item in items}) < len(items):
            raise serializers.ValidationError("A counter is there twice.")
        return items


class ReadManyBody(Body):
    """Which counters to read, and how."""

    of_fields = {
        "keys": {
            "minItems": 1,
            "items": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH},
        }
    }

    keys = Several(
        child=Text(max_length=KEY_LENGTH, trim_whitespace=False),
        allow_empty=False,
        max_length=MOST_ITEMS,
    )
    consistency = Word(choices=["cached", "exact"], default="cached")


# `adjustments.orders` refuses these: controls except tab and line ends, and changes of direction.
_STEERS = r"\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069"
_ENDS, _WITHIN = rf"[^\s{_STEERS}]", rf"[^{_STEERS}]"
SHOWN = f"^{_WITHIN}*$"
# Long enough also without the white space around it.
_REASON = rf"^\s*{_ENDS}{_WITHIN}{{{LEAST_REASON - 2},}}{_ENDS}\s*$"


class AdjustBody(Body):
    """The new value or the change, and why."""

    says = {**Body.says, "oneOf": [{"required": ["to"]}, {"required": ["by"]}]}
    of_fields = {
        "by": {"not": {"enum": [0]}},
        "reason": {"pattern": _REASON},
        "case": {"pattern": SHOWN},
    }

    to = WholeNumber(required=False)
    by = WholeNumber(required=False)
    expected = WholeNumber(required=False)
    reason = Text(min_length=LEAST_REASON, max_length=REASON_LENGTH)
    case = Text(max_length=CASE_LENGTH, required=False, allow_blank=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("to" in attrs) == ("by" in attrs):
            raise serializers.ValidationError("Give either 'to' or 'by'.")
        if attrs.get("by") == 0:
            raise serializers.ValidationError({"by": ["A change by zero means nothing."]})
        return attrs


class ReadingAnswer(Described):
    """A value and its parts."""

    key = serializers.CharField()
    value = Value()
    as_of = serializers.DateTimeField()
    consistency = Word(choices=["exact", "cached", "landed"])


class ListAnswer(Described):
    """A page of a list. There is no way back, so previous is always null."""

    of_fields = {"next": {"format": "uri"}}

    next = serializers.CharField(allow_null=True)
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


class AdjustAnswer(ChangeAnswer):
    """An adjustment; the number is that of its row in the audit."""

    number = serializers.IntegerField()
    before = Value()


class HoldAnswer(Described):
    """A hold as it is by then; available is null where this request has taken nothing."""

    key = serializers.CharField()
    token = serializers.CharField()
    quantity = WholeNumber()
    sold = WholeNumber()
    state = Word(choices=["held", "committed", "released", "expired"])
    expires_at = serializers.DateTimeField()
    available = Value(allow_null=True)
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


class ShortfallItem(Described):
    """One counter of a refused change: how much was asked for, how much there is."""

    key = serializers.CharField()
    requested = WholeNumber()
    available = WholeNumber()
    bound = WholeNumber()


class Problem(Described):
    """RFC 9457. What stands behind ``detail`` depends on the type."""

    type = serializers.CharField(
        help_text="urn:django-counters:<name>, or about:blank where the status says all."
    )
    title = serializers.CharField(help_text="The phrase of the status.")
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="For people.")
    request_id = serializers.CharField(help_text="That of the answer's X-Request-ID.")
    errors = ProblemItem(many=True, required=False)  # type: ignore[assignment]
    retry_after = serializers.IntegerField(required=False, help_text="Seconds, as in Retry-After.")
    key = serializers.CharField(required=False, help_text="The counter.")
    reason = serializers.CharField(
        required=False, help_text="The problem of a key, tags, a moment or who."
    )
    requested = WholeNumber(required=False)
    available = WholeNumber(required=False, help_text="How much the bound admits.")
    floor = WholeNumber(required=False)
    ceiling = WholeNumber(required=False)
    period = serializers.CharField(
        required=False, help_text="Whose quota it is: minute, hour, day, week or month."
    )
    resets_at = serializers.DateTimeField(
        required=False, help_text="When the period ends, and the next one begins."
    )
    shortfalls = ShortfallItem(many=True, required=False)
    low = WholeNumber(required=False, help_text="The lowest number that can be kept.")
    high = WholeNumber(required=False, help_text="The highest number that can be kept.")
    expected = WholeNumber(required=False)
    current = Value(required=False, help_text="The value that is not the expected one.")
    delta = WholeNumber(required=False)
    limit = WholeNumber(required=False, help_text="How much one person may adjust it by.")
    request = serializers.IntegerField(required=False, help_text="The number of a request.")
    state = serializers.CharField(required=False, help_text="That of a request, or of a hold.")
    decider = serializers.CharField(required=False, help_text="Who has decided on a request.")
    quantity = WholeNumber(required=False, help_text="How much was held.")
    since = serializers.DateTimeField(required=False, help_text="From when on history is kept.")
    most = serializers.IntegerField(required=False, help_text="Bytes that a body may have.")
