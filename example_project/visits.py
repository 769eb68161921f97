"""Named counters: how often each page was visited."""

from __future__ import annotations

from django.http import HttpRequest

from django_counters.models import Counter


def count_visit(request: HttpRequest, page: str) -> None:
    """Count one visit of ``page`` under ``visits:<page>``, unless the request is a HEAD."""
    if request.method == "GET":
        Counter.objects.increment(f"visits:{page}")
