"""A site that counts what it is asked for."""

from __future__ import annotations

import os
from typing import Any

import django
from django.http import HttpRequest, HttpResponse
from django.urls import path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.workers.settings")
django.setup()


from django_counters.models import Counter  # noqa: E402
from tests.workers.connections import told  # noqa: E402


def count_once(key: str) -> None:
    """Count in this process, without a request."""
    Counter.objects.increment(key)


def count(request: HttpRequest, key: str) -> HttpResponse:
    """Count, and say over which connection."""
    Counter.objects.increment(f"views:{key}")
    return HttpResponse(told())


urlpatterns: list[Any] = [path("count/<str:key>", count)]
