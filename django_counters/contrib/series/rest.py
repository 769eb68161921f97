"""Series over HTTP: counts over time and by tag."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import methodcaller
from typing import Any, NamedTuple

from django.http import HttpResponseBase, QueryDict
from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions as drf
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.contrib.series import chart
from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.reading import Series, Splits, of
from django_counters.contrib.series.selection import Point, Split, points_of
from django_counters.errors import InvalidPeriod, InvalidTags
from django_counters.event import MOST_TAGS, TAG_LENGTH
from django_counters.rest.base import CounterView, iso
from django_counters.rest.bodies import (
    KEY,
    Body,
    Described,
    Moment,
    Several,
    Text,
    Value,
    Word,
    described,
    queried,
)
from django_counters.rest.permissions import CounterPermission
from django_counters.rest.targets import NamedTarget, OfRecord, Target

_WHERE = "where."
# Of points times splits, in an answer.
MOST_POINTS = 1000
# Seconds that caches may keep an answer.
LASTS = "max-age=60"


# Parameters.

PERIOD = OpenApiParameter("by", str, enum=PERIODS[1:], default="hour")
WHERE = OpenApiParameter(
    "where",
    {"type": "object", "additionalProperties": {"type": "string", "maxLength": TAG_LENGTH}},
    description="Values of tags: each is a parameter `where.<tag>`.",
    style="form",
    explode=True,
)
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


# Answers.


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


class MayReadHistory(CounterPermission):
    """May read the history of a counter."""

    action = "history"


@described("history", HistoryAnswer, KEY, PERIOD)
class HistoryView(CounterView):
    """Read the values of a named counter over time."""

    may = MayReadHistory

    def get(self, request: Request, key: str) -> Response:
        """The last 24 hours, 30 days, 26 weeks or 12 months."""
        target = self.target(key)
        if not isinstance(target, NamedTarget):
            raise drf.NotFound("Counters of records have a series, and no history.")
        with one_zone():
            found = chart.charted(key, request.query_params.get("by", "hour"))
        points = [
            {"moment": iso(moment), "value": value, "change": change}
            for moment, value, change in zip(found.starts, found.values, found.totals, strict=True)
        ]
        body = {"key": found.key, "by": found.by, "source": found.source, "points": points}
        return Response(body, headers=self.kept(target, LASTS))


@described("series", SeriesAnswer, KEY, SeriesQuery, WHERE)
class SeriesView(CounterView):
    """Read what was counted over time and by tag."""

    may = MayReadHistory

    def get(self, request: Request, key: str) -> HttpResponseBase:
        """Without a time, all that is kept: at most 1,000 points times splits.

        Cached counters are told as of the last flush, and `as_of` is null before it.
        """
        target = self.target(key)
        question = question_of(request.query_params)
        with one_zone():
            body = _series(key, question, question.put_to(series_of(target)))
        return self.answered(target, body, mark_of(body), LASTS)


def series_of(target: Target) -> Series:
    if isinstance(target, OfRecord):
        return of(getattr(target.record, target.exposed.field.name))
    return of(target.key)


class Question(NamedTuple):
    """What a request asks a series for."""

    where: Mapping[str, list[str]]
    per: str | None = None
    last: int | str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tz: str | None = None
    by: tuple[str, ...] = ()
    partial: str = "false"

    @property
    def is_timed(self) -> bool:
        """Whether it names a time. Otherwise it means all that is kept."""
        return not (self.per is None and self.last is None and self.since is None)

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
            yield f"{_WHERE}{name}", methodcaller("where", **{name: values})
        if self.by:
            yield "by", methodcaller("by", *self.by)
        if self.partial == "true":
            yield "partial", methodcaller("partial")


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
        name.removeprefix(_WHERE): lists.pop(name)
        for name in list(lists)
        if name.startswith(_WHERE)
    }
    given = queried(SeriesQuery, lists)
    if given.get("last", "").isdecimal():
        given["last"] = int(given["last"])
    return Question(where, **{**given, "by": tuple(given.get("by", ()))})


def one_zone() -> Any:
    """Without the time zone of this request: caches may share the answer."""
    return timezone.override(None)


def mark_of(body: dict[str, Any]) -> str:
    """The ETag. It does not depend on when the series was read."""
    told = {name: part for name, part in body.items() if name != "as_of"}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _series(key: str, question: Question, asked: Series | Splits) -> dict[str, Any]:
    as_of = asked.as_of
    with told_of(""):
        starts = asked.starts() if question.is_timed else []
        check_number(max(1, len(starts) - 1))
        numbers = _split(asked, starts) if isinstance(asked, Splits) else _whole(asked, starts)
    return {
        "key": key,
        "per": question.per,
        "tz": str(starts[0].tzinfo) if starts else question.tz,
        "as_of": as_of and iso(as_of),
        **numbers,
    }


def _whole(asked: Series, starts: Sequence[datetime]) -> dict[str, Any]:
    if not starts:
        return {"total": asked.total(), "points": []}
    points = asked.list()
    return {"total": sum(point.value for point in points), "points": _points_told(points)}


def _split(asked: Splits, starts: Sequence[datetime]) -> dict[str, Any]:
    totals = asked.total()
    # The next statement returns no more rows than this, except for what is counted meanwhile.
    check_number(max(1, len(starts) - 1) * len(totals))
    rows = asked.list() if starts else [_row(asked, *item) for item in totals.items()]
    points = _together(rows) if rows else points_of(starts, None)
    return {
        "total": sum(row.total for row in rows),
        "points": _points_told(points),
        "splits": [
            {"tags": dict(row.tags), "total": row.total, "points": _points_told(row.points)}
            for row in rows
        ],
    }


def _row(asked: Splits, values: Any, total: int) -> Split:
    return Split(tags_of(asked, values), (), total)


def tags_of(asked: Splits, values: Any) -> dict[str, Any]:
    combination = values if isinstance(values, tuple) else (values,)
    return dict(zip(asked.tags, combination, strict=True))


def _together(rows: Iterable[Split]) -> list[Point]:
    """The sums of all rows, which have the same periods."""
    columns = zip(*(row.points for row in rows), strict=True)
    return [
        Point(column[0].start, column[0].end, sum(point.value for point in column))
        for column in columns
    ]


def _points_told(points: Iterable[Point]) -> list[dict[str, Any]]:
    return [
        {"start": iso(point.start), "end": iso(point.end), "value": point.value} for point in points
    ]


def check_number(number: int) -> None:
    """Refuse an answer of more than `MOST_POINTS` points.

    Raises:
        ValidationError: it is one.
    """
    if number > MOST_POINTS:
        says = f"That is {number:,} points, and an answer has at most {MOST_POINTS:,}: ask for"
        says += " longer periods, less time, or fewer values of tags."
        raise drf.ValidationError(says)


urlpatterns = [
    path("counters/<counter_key:key>/history", HistoryView.as_view(), name="history"),
    path("counters/<counter_key:key>/series", SeriesView.as_view(), name="series"),
]
