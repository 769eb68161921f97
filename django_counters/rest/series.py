"""``GET counters/{key}/series`` and ``/history``: what was counted over time and by tag."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.read import chart
from django_counters.read.points import Point, Split, points_of
from django_counters.read.series import Series, Splits
from django_counters.rest.base import CounterView, iso
from django_counters.rest.describing import described
from django_counters.rest.parameters import MOST_POINTS, Question, question_of, told_of
from django_counters.rest.permissions import MayReadHistory
from django_counters.rest.sharing import Kept, Made, shared
from django_counters.rest.targets import Named, Target
from django_counters.rest.views import is_known


@described("history")
class HistoryView(CounterView):
    """``GET counters/{key}/history?by=hour``: the last 24 hours, 30 days, 26 weeks or 12 months."""

    may = MayReadHistory

    def get(self, request: Request, key: str) -> Response:
        """The values of a counter, from its periods, its ledger, or its recorded totals."""
        target = self.target(key)
        if not isinstance(target, Named):
            raise drf.NotFound("Counters of records have a series, and no history.")
        by = request.query_params.get("by", "hour")
        kept = shared(("history", by, key), lambda: _history(key, by))
        return Response(kept.body, headers=self.kept(target, kept.lasts))


def _history(key: str, by: str) -> Made:
    found = chart.charted(key, by)
    points = [
        {"moment": iso(moment), "value": value, "change": change}
        for moment, value, change in zip(found.starts, found.values, found.totals, strict=True)
    ]
    body = {"key": found.key, "by": found.by, "source": found.source, "points": points}
    return Made(body, any((*found.values, *found.totals)))


@described("series")
class SeriesView(CounterView):
    """``GET counters/{key}/series?per=day&last=30&by=country``."""

    may = MayReadHistory

    def get(self, request: Request, key: str) -> Response:
        """What was counted, from the cells of a counter or from the entries of its ledger."""
        target = self.target(key)
        question = question_of(request.query_params)
        asked = question.put_to(target.series)
        kept = shared(("series", key, question.text), lambda: _made(key, question, asked))
        return answered(self, target, kept)


def answered(view: CounterView, target: Target, kept: Kept) -> Response:
    """A kept answer, or that it is the one which the client has."""
    mark = _mark(kept.body)
    headers = {"ETag": f'W/"{mark}"', **view.kept(target, kept.lasts)}
    if is_known(mark, view.request.META.get("HTTP_IF_NONE_MATCH", "")):
        return Response(status=304, headers=headers)
    return Response(kept.body, headers=headers)


def _mark(body: dict[str, Any]) -> int:
    """A number for the ETag. It does not depend on when the series was read."""
    told = {name: part for name, part in body.items() if name != "as_of"}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:8])


def _made(key: str, question: Question, asked: Series | Splits) -> Made:
    as_of = asked.as_of
    with told_of(""):
        starts = asked.starts() if question.is_timed else []
        check_number(max(1, len(starts) - 1))
        numbers = _split(asked, starts) if isinstance(asked, Splits) else _whole(asked, starts)
    body = {
        "key": key,
        "per": question.per,
        "tz": str(starts[0].tzinfo) if starts else question.tz,
        "as_of": as_of and iso(as_of),
        **numbers,
    }
    return Made(body, bool(numbers["total"] or any(part["value"] for part in numbers["points"])))


def _whole(asked: Series, starts: Sequence[datetime]) -> dict[str, Any]:
    if not starts:
        return {"total": asked.total(), "points": []}
    points = asked.list()
    return {"total": sum(point.value for point in points), "points": _told(points)}


def _split(asked: Splits, starts: Sequence[datetime]) -> dict[str, Any]:
    totals = asked.total()
    # The next statement returns no more rows than this, except for what is counted meanwhile.
    check_number(max(1, len(starts) - 1) * len(totals))
    rows = asked.list() if starts else [_row(asked, *item) for item in totals.items()]
    points = _together(rows) if rows else points_of(starts, None)
    return {
        "total": sum(row.total for row in rows),
        "points": _told(points),
        "splits": [
            {"tags": dict(row.tags), "total": row.total, "points": _told(row.points)}
            for row in rows
        ],
    }


def _row(asked: Splits, values: Any, total: int) -> Split:
    combination = values if isinstance(values, tuple) else (values,)
    return Split(dict(zip(asked.tags, combination, strict=True)), (), total)


def _together(rows: Iterable[Split]) -> list[Point]:
    """The sums of all rows, which have the same periods."""
    columns = zip(*(row.points for row in rows), strict=True)
    return [
        Point(column[0].start, column[0].end, sum(point.value for point in column))
        for column in columns
    ]


def _told(points: Iterable[Point]) -> list[dict[str, Any]]:
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
