"""``GET counters?namespace=votes``: the counters of a namespace, page by page."""

from __future__ import annotations

from itertools import takewhile

from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from django_counters import clock
from django_counters.models import Counter
from django_counters.rest.base import CounterView
from django_counters.rest.bodies import checker
from django_counters.rest.describing import described
from django_counters.rest.parameters import ListQuery, single
from django_counters.rest.permissions import MayRead
from django_counters.rest.problems import Refused
from django_counters.rest.views import reading_body
from django_counters.types import Reading, key_range, namespace_of, why_no_key

# How often a page asks for keys, where a permission of the project hides most of them.
MOST_STATEMENTS = 10


@described("list")
class ListView(CounterView):
    """``GET counters?namespace=votes&prefix=2026-&limit=100&cursor=...``"""

    may = MayRead

    def get(self, request: Request) -> Response:
        """The next counters in the order of their keys, with exact values."""
        given = checker(ListQuery).run_validation(single(dict(request.query_params.lists())))
        self.admit_namespace(given["namespace"])
        start = f"{given['namespace']}:{given['prefix']}"
        after = _key_of(given["cursor"], start) if "cursor" in given else ""
        keys, is_more = self._page(start, after, given["limit"])
        as_of = clock.now()
        values = Counter.objects.values_of(keys)
        results = [reading_body(key, Reading(values[key], 0, 0, as_of, "exact")) for key in keys]
        body = {"next": _url_after(request, keys[-1]) if is_more else None, "previous": None}
        headers = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}
        return Response({**body, "results": results}, headers=headers)

    def _page(self, start: str, after: str, limit: int) -> tuple[list[str], bool]:
        """Up to ``limit`` keys that the request may read, and whether there may be more.

        The next page begins after the last of them: it tells no key that is hidden.

        Raises:
            Refused: so many counters are hidden that none was found.
        """
        found: list[str] = []
        for _ in range(MOST_STATEMENTS):
            keys = _keys(start, after, limit + 1)
            # Of a row that was made by hand the API cannot speak.
            found += self.visible([key for key in keys if why_no_key(key) is None])
            if len(found) > limit or len(keys) <= limit:
                return found[:limit], len(found) > limit
            after = keys[-1]
        if not found:
            says = "Too many counters here are not for you. Give a longer prefix."
            raise Refused(400, "unsupported", says)
        return found, True


def _keys(start: str, after: str, most: int) -> list[str]:
    """The first keys that begin with a text, after one of them. Reads no other rows."""
    _, end = key_range(namespace_of(start))
    rows = Counter.objects.filter(key__gte=start, key__lt=end)
    if after:
        rows = rows.filter(key__gt=after)
    keys = rows.order_by("key").values_list("key", flat=True)[:most]
    # They stand together. SQLite's LIKE would take A for a.
    return list(takewhile(lambda key: key.startswith(start), keys))


def _url_after(request: Request, key: str) -> str:
    cursor = urlsafe_base64_encode(key.encode())
    url: str = replace_query_param(request.build_absolute_uri(), "cursor", cursor)
    return url


def _key_of(cursor: str, start: str) -> str:
    """The key that a cursor stands for.

    Raises:
        ValidationError: it is no cursor of such a list.
    """
    try:
        key = urlsafe_base64_decode(cursor).decode()
    except ValueError:
        key = ""
    is_one = key.startswith(start) and why_no_key(key) is None
    if not is_one or urlsafe_base64_encode(key.encode()) != cursor:
        raise drf.ValidationError({"cursor": ["It is not of this list: follow 'next'."]})
    return key
