"""``GET top?namespace=views&per=week``: the counters with the largest counts."""

from __future__ import annotations

from typing import Any

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.contrib.series import of
from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.rest import PARTIAL, MayReadHistory, told_of
from django_counters.contrib.top.reading import MOST_BEFORE, largest
from django_counters.rest.base import CounterView, iso
from django_counters.rest.bodies import (
    Body,
    Described,
    Digits,
    Text,
    Value,
    Word,
    described,
    queried,
)
from django_counters.rest.views import HEADERS
from django_counters.types import KEY_LENGTH

_MOST = 100


class TopQuery(Body):
    """The parameters of those who have counted most."""

    namespace = Text(max_length=KEY_LENGTH)
    per = Word(choices=PERIODS)
    n = Digits(min_value=1, max_value=_MOST, default=10)
    against = Digits(min_value=1, max_value=MOST_BEFORE, required=False)
    partial = Word(choices=["true", "false"], default="false", help_text=PARTIAL)  # type: ignore[assignment]


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


@described("top", TopAnswer, TopQuery)
class TopView(CounterView):
    """Read which counters of a namespace have counted most."""

    may = MayReadHistory

    def get(self, request: Request) -> Response:
        """In the present period; with `against`, which have risen most since an earlier one.

        The namespace names the period in `TOP`. Cached counters are ranked as of the last flush.
        """
        given = queried(TopQuery, dict(request.query_params.lists()))
        name, per = given["namespace"], given["per"]
        self.admit_namespace(name)
        series = of(namespace=name).per(per)
        series = series.partial() if given["partial"] == "true" else series
        as_of = series.as_of
        with told_of("per"):
            rows = largest(series, given["n"], against=given.get("against"))
        # A permission of the project may look at each counter.
        seen = self.visible([row.key for row in rows])
        counters = [
            {"key": row.key, "value": row.value, "before": row.before}
            for row in rows
            if row.key in seen
        ]
        body: dict[str, Any] = {"namespace": name, "per": per, "as_of": as_of and iso(as_of)}
        return Response({**body, "counters": counters}, headers=HEADERS)


urlpatterns = [path("top", TopView.as_view(), name="top")]
