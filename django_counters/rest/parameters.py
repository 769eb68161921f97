"""The parameters of requests: what the schema says of them, and what those of a series ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from operator import methodcaller
from typing import Any, NamedTuple

from django.http import QueryDict
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework import exceptions as drf
from rest_framework import serializers

from django_counters.adjustments.orders import LONGEST_REQUEST_ID
from django_counters.calendar import PERIODS
from django_counters.exceptions import InvalidPeriod, InvalidTags
from django_counters.measure import MOST_TAGS, TAG_LENGTH
from django_counters.read.series import Series, Splits
from django_counters.read.top import MOST_BEFORE
from django_counters.rest.bodies import Body, checker
from django_counters.rest.request_bodies import STATES
from django_counters.rest.values import Digits, Moment, Several, Text, Word
from django_counters.tokens import TOKEN_LENGTH
from django_counters.types import KEY_LENGTH

EXAMPLE = "likes:post:456"
# Of points times splits, in an answer.
MOST_POINTS = 1000
# Of counters that have counted most, in an answer.
MOST_RANKED = 100
# Of counters, in one page of a list.
MOST_LISTED = 500
# Of 200 characters with four bytes each, in base64.
CURSOR_LENGTH = 1067
LAST_LENGTH = 10
ZONE_LENGTH = 60
WHERE = "where."

KEY = OpenApiParameter(
    "key",
    {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH},
    OpenApiParameter.PATH,
    description=(
        "The counter: `<namespace>:<name>`, or `<app>.<Model>.<field>:<primary key>`. Printable"
        " characters without white space, in Unicode normalization form C. A slash is part of the"
        " key, as it is or as `%2F`, but not at its end; other characters are percent-encoded"
        " UTF-8."
    ),
    examples=[OpenApiExample("named", EXAMPLE), OpenApiExample("record", "blog.Post.views:7")],
)
NUMBER = OpenApiParameter(
    "number",
    {"type": "integer", "minimum": 1},
    OpenApiParameter.PATH,
    description="The `id` of the request for an adjustment.",
    examples=[OpenApiExample("number", 17)],
)
ONCE = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": TOKEN_LENGTH},
    OpenApiParameter.HEADER,
    description=(
        "Names this request. However often it is sent, it is done once, and is answered the same."
        " It belongs to who sends it, and to the method and path."
    ),
    examples=[OpenApiExample("uuid", "018f6d0e-4b5a-7c3d-9e8f-0a1b2c3d4e5f")],
)
HOLD = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": TOKEN_LENGTH},
    OpenApiParameter.HEADER,
    required=True,
    description="Names the hold, for as long as it is known. It belongs to who sends it.",
    examples=[OpenApiExample("basket", "basket-17")],
)
REQUEST_ID = OpenApiParameter(
    "X-Request-ID",
    {"type": "string"},
    OpenApiParameter.HEADER,
    description=(
        "Names this request for people who look for it later. It is in the answer, if it has up to"
        f" {LONGEST_REQUEST_ID} printable characters of ASCII; else the answer has a new one."
    ),
    examples=[OpenApiExample("uuid", "018f6d0e-4b5a-7c3d-9e8f-0a1b2c3d4e60")],
)
SEEN = OpenApiParameter(
    "If-None-Match",
    {"type": "string"},
    OpenApiParameter.HEADER,
    description="The ETag of an answer that you have: 304 if the value is still the same.",
    examples=[OpenApiExample("etag", 'W/"42"')],
)
PERIOD = OpenApiParameter(
    "by", {"type": "string", "enum": list(PERIODS[1:])}, default="hour", description="Of a point."
)


def _asks(name: str, says: str, example: Any = None, **schema: Any) -> OpenApiParameter:
    examples = [OpenApiExample(name, example)] if example else []
    schema.setdefault("type", "string")
    needed = schema.pop("required", False)
    return OpenApiParameter(
        name, schema, OpenApiParameter.QUERY, needed, description=says, examples=examples
    )


_LAST = "^([1-9][0-9]{0,4}|[1-9][0-9]{0,8}[mhdw])$"
_TAG = {"type": "string", "maxLength": TAG_LENGTH}
OF_SERIES = (
    _asks("per", "One point for each; without it, one for all of the time.", enum=list(PERIODS)),
    _asks(
        "last",
        "So many periods, the present one included; or back from now: a number and `m` (minutes),"
        " `h`, `d` or `w`.",
        "30d",
        pattern=_LAST,
    ),
    _asks("since", "From when on, with an offset.", format="date-time"),
    _asks("until", "Up to when; now, where it is not given.", format="date-time"),
    _asks("tz", "Whose clocks.", "Europe/Berlin", maxLength=ZONE_LENGTH),
    _asks(
        "by",
        "Apart for each value of a tag. Several: again, or with commas.",
        ["country"],
        **{"type": "array", "items": {**_TAG, "minLength": 1}, "maxItems": MOST_TAGS},
    ),
    OpenApiParameter(
        "where",
        {"type": "object", "additionalProperties": _TAG},
        OpenApiParameter.QUERY,
        description=(
            "Only what was counted with a value of a tag, or with any of several: each is a"
            " parameter `where.<tag>`, which may be there again. Empty for without."
        ),
        style="form",
        explode=True,
        examples=[OpenApiExample("where", {"where.country": "DE"})],
    ),
)


OF_TOP = (
    _asks("namespace", "Of which counters.", "views", required=True, maxLength=KEY_LENGTH),
    _asks("per", "In the present one of these.", required=True, enum=list(PERIODS)),
    _asks("n", "How many.", type="integer", minimum=1, maximum=MOST_RANKED, default=10),
    _asks(
        "against",
        "Compare with the period so many before, up to the same time of day, and order by the"
        " rise.",
        1,
        type="integer",
        minimum=1,
        maximum=MOST_BEFORE,
    ),
)


OF_LIST = (
    _asks("namespace", "Of which counters.", "votes", required=True, maxLength=KEY_LENGTH),
    _asks(
        "prefix",
        "How the names begin that stand behind the colon; without it, all of them.",
        "2026-",
        maxLength=KEY_LENGTH,
    ),
    _asks(
        "limit", "How many, at most.", type="integer", minimum=1, maximum=MOST_LISTED, default=100
    ),
    _asks(
        "cursor",
        "Where to go on: `next` of the answer before has it.",
        pattern="^[A-Za-z0-9_-]+$",
        maxLength=CURSOR_LENGTH,
    ),
)


OF_REQUESTS = (
    _asks(
        "namespace",
        "Of which counters: a namespace, or a field as in `blog.Post.views`.",
        "votes",
        required=True,
        maxLength=KEY_LENGTH,
    ),
    _asks("state", "Only those; without it, all of them.", enum=STATES),
    *OF_LIST[2:],
)


class SeriesQuery(Body):
    """The parameters of a series, except those that begin with ``where.``."""

    per = Word(choices=PERIODS, required=False)
    last = Text(max_length=LAST_LENGTH, required=False)
    since = Moment(required=False)
    until = Moment(required=False)
    tz = Text(max_length=ZONE_LENGTH, required=False)
    by = Several(child=Text(max_length=TAG_LENGTH), max_length=MOST_TAGS, required=False)

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


class ListQuery(Body):
    """The parameters of a list of counters."""

    namespace = Text(max_length=KEY_LENGTH)
    prefix = Text(max_length=KEY_LENGTH, default="", allow_blank=True, trim_whitespace=False)
    limit = Digits(min_value=1, max_value=MOST_LISTED, default=100)
    cursor = Text(max_length=CURSOR_LENGTH, required=False, trim_whitespace=False)


class RequestsQuery(Body):
    """The parameters of a list of requests for adjustments."""

    namespace = Text(max_length=KEY_LENGTH)
    state = Word(choices=STATES, required=False)
    limit = Digits(min_value=1, max_value=MOST_LISTED, default=100)
    cursor = Text(max_length=CURSOR_LENGTH, required=False, trim_whitespace=False)


class Question(NamedTuple):
    """What a request asks a series for."""

    where: Mapping[str, list[str]]
    per: str | None = None
    last: int | str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tz: str | None = None
    by: tuple[str, ...] = ()

    @property
    def is_timed(self) -> bool:
        """Whether it names a time. Otherwise it means all that is kept."""
        return not (self.per is None and self.last is None and self.since is None)

    @property
    def text(self) -> str:
        """A text that equal questions share."""
        return json.dumps(self._asdict(), sort_keys=True, default=datetime.isoformat)

    def put_to(self, series: Series) -> Series | Splits:
        """The series that it asks for. Sends no query.

        Raises:
            ValidationError: a parameter is invalid.
            UnsupportedSeries: the counter is not counted by period.
        """
        asked: Any = series
        for name, step in self._steps():
            with told_of(name):
                asked = step(asked)
        found: Series | Splits = asked
        return found

    def _steps(self) -> Iterator[tuple[str, Callable[[Any], Any]]]:
        """The steps to the series, by the parameter that is wrong if a step fails."""
        if self.per is not None:
            yield "per", methodcaller("per", self.per)
        if self.last is not None:
            yield "last", methodcaller("last", self.last)
        if self.since is not None:
            yield "until", methodcaller("between", self.since, self.until)
        if self.tz is not None:
            yield "tz", methodcaller("tz", self.tz)
        for name, values in self.where.items():
            yield f"{WHERE}{name}", methodcaller("where", **{name: values})
        if self.by:
            yield "by", methodcaller("by", *self.by)


_QUERIES = (SeriesQuery, TopQuery, ListQuery, RequestsQuery)
_ONCE = {name for query in _QUERIES for name in query._declared_fields}


@contextmanager
def told_of(name: str) -> Iterator[None]:
    """Blame errors in the block on this parameter; without a name, on all of them."""
    try:
        yield
    except (InvalidPeriod, InvalidTags) as error:
        raise drf.ValidationError({name or "non_field_errors": [str(error)]}) from error


def question_of(query: QueryDict) -> Question:
    """What the parameters of an address ask for.

    Raises:
        ValidationError: a parameter is unknown or invalid.
    """
    lists = dict(query.lists())
    where = {
        name.removeprefix(WHERE): lists.pop(name) for name in list(lists) if name.startswith(WHERE)
    }
    given = checker(SeriesQuery).run_validation(single(lists))
    if given.get("last", "").isdecimal():
        given["last"] = int(given["last"])
    return Question(where, **{**given, "by": tuple(given.get("by", ()))})


def single(lists: Mapping[str, list[str]]) -> dict[str, Any]:
    """The parameters by name. Each may be given once, except ``by``."""
    found: dict[str, Any] = {}
    for name, values in lists.items():
        if name == "by":
            found[name] = [tag for value in values for tag in value.split(",")]
        elif len(values) > 1 and name in _ONCE:
            raise drf.ValidationError({name: ["It is there twice."]})
        else:
            found[name] = values[-1]
    return found
