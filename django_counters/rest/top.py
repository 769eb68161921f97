"""``GET top?namespace=views&per=week``: the counters that have counted most."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.models import Counter
from django_counters.rest.base import CounterView, iso
from django_counters.rest.bodies import checker
from django_counters.rest.describing import described
from django_counters.rest.parameters import TopQuery, single, told_of
from django_counters.rest.permissions import MayReadHistory


@described("top")
class TopView(CounterView):
    """``GET top?namespace=views&per=week&n=10&against=1``."""

    may = MayReadHistory

    def get(self, request: Request) -> Response:
        """Those of a namespace that have counted most in the present period, or risen most."""
        given = checker(TopQuery).run_validation(single(dict(request.query_params.lists())))
        name, per = given["namespace"], given["per"]
        self.admit_namespace(name)
        asked = Counter.objects.series(namespace=name).per(per)
        as_of = asked.as_of
        with told_of("per"):
            rows = asked.top(given["n"], against=given.get("against"))
        # A permission of the project may look at each counter.
        seen = self.visible([row.key for row in rows])
        counters = [
            {"key": row.key, "value": row.value, "before": row.before}
            for row in rows
            if row.key in seen
        ]
        body: dict[str, Any] = {"namespace": name, "per": per, "as_of": as_of and iso(as_of)}
        headers = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}
        return Response({**body, "counters": counters}, headers=headers)
