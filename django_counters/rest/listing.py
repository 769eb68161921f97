"""``GET counters?namespace=votes``: the counters of a namespace, page by page.

The cursor of a page stands for its last row, and the next begins behind it.
"""

from __future__ import annotations

from itertools import takewhile

from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from django_counters import clock
from django_counters.models import Counter
from django_counters.rest.base import CounterView, reading_body
from django_counters.rest.bodies import ListAnswer, ListQuery, described, queried
from django_counters.rest.permissions import MayList
from django_counters.rest.targets import named
from django_counters.types import Reading, key_range, namespace_of, why_no_key

HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}


def url_after(request: Request, last: str) -> str:
    """The address of the page behind a row, which a text identifies."""
    cursor = urlsafe_base64_encode(last.encode())
    url: str = replace_query_param(request.build_absolute_uri(), "cursor", cursor)
    return url


def text_of(cursor: str) -> str:
    """The text that a cursor stands for.

    Raises:
        ValidationError: it stands for none.
    """
    try:
        text = urlsafe_base64_decode(cursor).decode()
    except ValueError:
        text = ""
    if not text or "\0" in text or urlsafe_base64_encode(text.encode()) != cursor:
        raise no_cursor()
    return text


def no_cursor() -> drf.ValidationError:
    """The error of a cursor of another list."""
    return drf.ValidationError({"cursor": ["It is not of this list: follow 'next'."]})


@described("list", ListAnswer, ListQuery)
class ListView(CounterView):
    """Read the counters of a namespace, page by page."""

    may = MayList

    def get(self, request: Request) -> Response:
        """In the order of their keys, with exact values.

        A counter that was there before the first page and still is at the last one is in one of
        them, once. It is listed once it has a row: at once if the API has counted it, else from
        the next flush or rollup on.
        """
        given = queried(ListQuery, dict(request.query_params.lists()))
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
        body = {"next": url_after(request, page[-1]) if is_more else None, "previous": None}
        return Response({**body, "results": results}, headers=HEADERS)


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
    key = text_of(cursor)
    if not key.startswith(start):
        raise no_cursor()
    return key
