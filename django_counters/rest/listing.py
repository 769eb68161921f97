"""``GET counters?namespace=votes``: the counters of a namespace, page by page."""

from __future__ import annotations

from itertools import takewhile

from rest_framework.request import Request
from rest_framework.response import Response

from django_counters import clock
from django_counters.models import Counter
from django_counters.rest import pages
from django_counters.rest.base import CounterView
from django_counters.rest.bodies import checker
from django_counters.rest.describing import described
from django_counters.rest.parameters import ListQuery, single
from django_counters.rest.permissions import MayList
from django_counters.rest.targets import named
from django_counters.rest.views import reading_body
from django_counters.types import Reading, key_range, namespace_of, why_no_key


@described("list")
class ListView(CounterView):
    """``GET counters?namespace=votes&prefix=2026-&limit=100&cursor=...``"""

    may = MayList

    def get(self, request: Request) -> Response:
        """The next counters in the order of their keys, with exact values."""
        given = checker(ListQuery).run_validation(single(dict(request.query_params.lists())))
        self.admit_namespace(given["namespace"])
        start = f"{given['namespace']}:{given['prefix']}"
        # A permission of the project is asked once, for what all keys of the list begin with.
        self.admit(self.may(), named(start))
        after = _key_of(given["cursor"], start) if "cursor" in given else ""
        found = _keys(start, after, given["limit"] + 1)
        page, is_more = found[: given["limit"]], len(found) > given["limit"]
        # Of a row that was made by hand the API cannot speak.
        keys = [key for key in page if why_no_key(key) is None]
        as_of = clock.now()
        values = Counter.objects.values_of(keys)
        results = [reading_body(key, Reading(values[key], 0, 0, as_of, "exact")) for key in keys]
        body = {"next": pages.url_after(request, page[-1]) if is_more else None, "previous": None}
        return Response({**body, "results": results}, headers=pages.HEADERS)


def _keys(start: str, after: str, most: int) -> list[str]:
    """The first keys that begin with a text, after one of them. Reads no other rows."""
    _, end = key_range(namespace_of(start))
    rows = Counter.objects.filter(key__gte=start, key__lt=end)
    if after:
        rows = rows.filter(key__gt=after)
    keys = rows.order_by("key").values_list("key", flat=True)[:most]
    # They stand together. SQLite's LIKE would take A for a.
    return list(takewhile(lambda key: key.startswith(start), keys))


def _key_of(cursor: str, start: str) -> str:
    """The key that a cursor stands for.

    Raises:
        ValidationError: it is no cursor of such a list.
    """
    key = pages.text_of(cursor)
    if not key.startswith(start):
        raise pages.no_cursor()
    return key
