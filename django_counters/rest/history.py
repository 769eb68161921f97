"""``GET counters/{key}/history``: how a counter went, worked out by one request for all others."""

from __future__ import annotations

from typing import Any

from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.read import chart
from django_counters.rest.base import CounterView, iso
from django_counters.rest.describing import described
from django_counters.rest.permissions import MayReadHistory
from django_counters.rest.sharing import Made, shared
from django_counters.rest.targets import Named


@described("history")
class HistoryView(CounterView):
    """``GET counters/{key}/history?by=hour``: the last day by hours, or 30 days by days."""

    may = MayReadHistory

    def get(self, request: Request, key: str) -> Response:
        """How a counter went: from its ledger, or from what is recorded."""
        target = self.target(key)
        if not isinstance(target, Named):
            raise drf.NotFound("Counters of records have a series, and no history.")
        by = request.query_params.get("by", "hour")
        kept = shared(("history", by, key), lambda: _made(key, by))
        return Response(kept.body, headers=self.kept(target, kept.lasts))


def _made(key: str, by: str) -> Made:
    found = chart.charted(key, by)
    return Made(_body(found), any(point.value or point.change for point in found.points))


def _body(found: chart.Chart) -> dict[str, Any]:
    return {
        "key": found.key,
        "by": found.by,
        "source": found.source,
        "points": [
            {"moment": iso(point.moment), "value": point.value, "change": point.change}
            for point in found.points
        ],
    }
