"""Named counters: how often each page was visited, and by how many. They wait in Redis."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from uuid import uuid4

from django.http import HttpRequest, HttpResponse

from django_counters import OutcomeUnknown
from django_counters.contrib import series, uniques
from django_counters.contrib.uniques import Distinct
from django_counters.models import Counter
from example_project.people import VISITOR_COOKIE, VISITOR_HEADER
from example_project.tally import COUNTED_HEADER, UNKNOWN

_VISITOR = re.compile(r"[0-9a-f]{32}")
_A_MONTH = 30 * 86_400


def count_visit(request: HttpRequest, response: HttpResponse, page: str) -> HttpResponse:
    """Count one visit of ``page`` under ``visits:<page>``, unless the request is a HEAD.

    A visitor is known by a random cookie, of which a hash is kept.
    """
    if request.method != "GET":
        return response
    visitor = visitor_of(request)
    response.headers[VISITOR_HEADER] = visitor
    remembered(request, response)
    who = f"visitor:{visitor}"
    return marked(response, is_known(partial(Counter.objects.increment, f"visits:{page}", who=who)))


def visitor_of(request: HttpRequest) -> str:
    """The random name of a visitor; a new one stays the same for the rest of the request."""
    given = request.COOKIES.get(VISITOR_COOKIE, "")
    if not _VISITOR.fullmatch(given):
        given = request.COOKIES[VISITOR_COOKIE] = uuid4().hex
    return given


def remembered(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The response, with the cookie of the visitor."""
    name = visitor_of(request)
    response.set_cookie(VISITOR_COOKIE, name, _A_MONTH, httponly=True, samesite="Lax")
    return response


def visitors_today(*pages: str) -> Distinct:
    """How many different visitors these pages have had today, as far as it has landed."""
    keys = [f"visits:{page}" for page in pages]
    return uniques.count(series.of(keys).per("day").last(1))


def is_known(increment: Callable[[], object]) -> bool:
    """Count, and return whether that is certain: a page is shown also if nobody knows."""
    try:
        increment()
    except OutcomeUnknown:
        # Counting once more might count it twice.
        return False
    return True


def marked(response: HttpResponse, known: bool) -> HttpResponse:
    """The response, which says if it is not known whether it was counted."""
    if not known:
        response.headers[COUNTED_HEADER] = UNKNOWN
    return response
