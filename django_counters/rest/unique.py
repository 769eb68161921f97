"""``GET counters/{key}/unique``: how many distinct actors there were."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.read.series import Series, Splits
from django_counters.read.uniques import Distinct
from django_counters.rest.base import CounterView, iso
from django_counters.rest.describing import described
from django_counters.rest.parameters import Question, question_of, told_of
from django_counters.rest.permissions import MayReadHistory
from django_counters.rest.series import answered, check_number
from django_counters.rest.sharing import Made, shared


@described("unique")
class UniqueView(CounterView):
    """``GET counters/{key}/unique?per=day&last=30&by=country``."""

    may = MayReadHistory

    def get(self, request: Request, key: str) -> Response:
        """How many there were in all of the time, in each period, and by tag."""
        target = self.target(key)
        question = question_of(request.query_params)
        asked: Any = question._replace(by=()).put_to(target.series)
        split: Any = question.put_to(target.series) if question.by else None
        kept = shared(
            ("number", "unique", key, question.text), lambda: _made(key, question, asked, split)
        )
        return answered(self, target, kept)


def _made(key: str, question: Question, asked: Series, split: Splits | None) -> Made:
    as_of = asked.as_of
    with told_of(""):
        points = _points(asked) if question.per else []
        whole = asked.unique()
        splits = {} if split is None else {"splits": _splits(split)}
    body = {
        "key": key,
        "per": question.per,
        "tz": str(points[0].start.tzinfo) if points else question.tz,
        "as_of": as_of and iso(as_of),
        **_told(whole),
        "points": [
            {"start": iso(point.start), "end": iso(point.end), **_told(point.value)}
            for point in points
        ],
        **splits,
    }
    return Made(body, bool(whole))


def _points(asked: Series) -> list[Any]:
    check_number(len(asked.unique_starts()) - 1)
    return asked.uniques()


def _splits(split: Splits) -> list[dict[str, Any]]:
    found = split.unique()
    check_number(len(found))
    return [
        {"tags": dict(zip(split.tags, _combination(values), strict=True)), **_told(number)}
        for values, number in found.items()
    ]


def _combination(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def _told(number: Distinct) -> dict[str, Any]:
    return {"value": int(number), "exact": number.is_exact, "error": number.error}
