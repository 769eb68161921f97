"""``GET top?namespace=views&per=week``: the counters that have counted most."""

from __future__ import annotations

from typing import Any

from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.rest.base import NO_SUCH, CounterView, iso
from django_counters.rest.bodies import checker
from django_counters.rest.describing import described
from django_counters.rest.parameters import TopQuery, single, told_of
from django_counters.rest.permissions import MayReadHistory
from django_counters.rest.targets import access_to


@described("top")
class TopView(CounterView):
    """``GET top?namespace=views&per=week&n=10&against=1``."""

    may = MayReadHistory

    def get(self, request: Request) -> Response:
        """Those of a namespace that have counted most in the present period, or risen most."""
        given = checker(TopQuery).run_validation(single(dict(request.query_params.lists())))
        name, per = given["namespace"], given["per"]
        self._admit(name)
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

    def _admit(self, namespace: str) -> None:
        """Refuse whoever may not read the history of counters there."""
        access = access_to(f"{namespace}:")
        if not self.may().admits(self.request, self, access):
            self._refuse(access)
        if namespace not in registry.policies():
            # Fields are no namespaces: their records are somebody's.
            raise drf.NotFound(NO_SUCH)
