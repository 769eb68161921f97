"""Named counters: how often each page was visited. They wait in Redis until they land."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.http import HttpRequest, HttpResponse

from django_counters import OutcomeUnknown
from django_counters.models import Counter
from example_project.tally import COUNTED_HEADER, UNKNOWN


def count_visit(request: HttpRequest, response: HttpResponse, page: str) -> HttpResponse:
    """Count one visit of ``page`` under ``visits:<page>``, unless the request is a HEAD."""
    counted = partial(Counter.objects.increment, f"visits:{page}")
    return marked(response, request.method != "GET" or is_known(counted))


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
