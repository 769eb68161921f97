"""``GET counters/<key>/unique``: the number of distinct actors."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase
from django.urls import path
from rest_framework import exceptions as drf
from rest_framework import serializers
from rest_framework.request import Request

from django_counters.contrib.series import Series, Splits
from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.rest import (
    LASTS,
    WHERE,
    MayReadHistory,
    Question,
    SeriesQuery,
    check_number,
    mark_of,
    one_zone,
    question_of,
    series_of,
    tags_of,
    told_of,
)
from django_counters.contrib.uniques.reading import (
    Distinct,
    count,
    count_by,
    points,
    starts,
    stored_sets,
)
from django_counters.rest.base import CounterView, iso
from django_counters.rest.bodies import KEY, Described, Value, Word, described

# Stored sets that one answer is made of: each may have 16 KB.
MOST_SETS = 2000


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


@described("unique", UniqueAnswer, KEY, SeriesQuery, WHERE)
class UniqueView(CounterView):
    """Read how many distinct actors there were."""

    may = MayReadHistory

    def get(self, request: Request, key: str) -> HttpResponseBase:
        """In all of the time, in each period, and by tag. The parameters are those of a series.

        An actor of two periods is one in `value`. Exact up to 512, else an estimate with its
        relative standard error.
        """
        target = self.target(key)
        question = question_of(request.query_params)
        series: Any = question._replace(by=()).put_to(series_of(target))
        split: Any = question.put_to(series_of(target)) if question.by else None
        with one_zone():
            body = _answer(key, question, series, split)
        return self.answered(target, body, mark_of(body), LASTS)


def _answer(key: str, question: Question, series: Series, split: Splits | None) -> dict[str, Any]:
    as_of = series.as_of
    with told_of(""):
        if stored_sets(series, MOST_SETS + 1) > MOST_SETS:
            says = f"An answer is made of at most {MOST_SETS:,} sets: ask for less time."
            raise drf.ValidationError(says)
        periods: list[Any] = []
        if question.per:
            check_number(len(starts(series)) - 1)
            periods = points(series)
        whole = count(series)
        splits = {} if split is None else {"splits": _splits(split)}
    return {
        "key": key,
        "per": question.per,
        "tz": str(periods[0].start.tzinfo) if periods else question.tz,
        "as_of": as_of and iso(as_of),
        **_told(whole),
        "points": [
            {"start": iso(point.start), "end": iso(point.end), **_told(point.value)}
            for point in periods
        ],
        **splits,
    }


def _splits(split: Splits) -> list[dict[str, Any]]:
    numbers = count_by(split)
    check_number(len(numbers))
    return [{"tags": tags_of(split, values), **_told(one)} for values, one in numbers.items()]


def _told(number: Distinct) -> dict[str, Any]:
    return {"value": int(number), "exact": number.is_exact, "error": number.error}


urlpatterns = [path("counters/<counter_key:key>/unique", UniqueView.as_view(), name="unique")]
