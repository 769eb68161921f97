"""The live page, and the numbers that it asks for again and again."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from django.core.cache import cache
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError

from example_project.blog.downloads import downloads_of
from example_project.blog.models import Post
from example_project.flow import present
from example_project.live import charts
from example_project.named import named_counters
from example_project.shop.models import Product
from example_project.visits import count_visit

KEPT_FOR = 0.2
CACHE_KEY = "live-counts"


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """The page. Without JavaScript it shows the numbers of the moment."""
    context = {"tables": _tables(), "charts": charts.all_charts(), "flow": present()}
    return count_visit(request, render(request, "live/live.html", context), "live")


@require_safe
@never_cache
def counts(_: HttpRequest) -> JsonResponse:
    """The numbers as JSON, at most 200 ms old however many watch."""
    found: dict[str, Any] | None = None
    # Without Redis everybody who watches asks the database.
    with suppress(RedisError):
        found = cache.get(CACHE_KEY)
    if found is None or not 0 <= time.time() - found["read_at"] < KEPT_FOR:
        found = {
            "read_at": time.time(),
            "tables": _tables(),
            "fragments": {**charts.fragments(charts.all_charts()), "flow": str(present())},
        }
        with suppress(RedisError):
            # Redis expires in whole seconds, hence the second look at the age.
            cache.set(CACHE_KEY, found, timeout=1)
    return JsonResponse(found)


def _tables() -> dict[str, list[dict[str, object]]]:
    return {"stock": _stock(), "posts": _posts(), "visits": _visits()}


def _stock() -> list[dict[str, object]]:
    rows = Product.objects.annotate(sold=Sum("orders__quantity", default=0)).order_by("pk")
    return [
        {"id": f"stock-{row.pk}", "name": row.name, "numbers": [int(row.stock), row.sold]}
        for row in rows
    ]


def _posts() -> list[dict[str, object]]:
    return [
        {
            "id": f"post-{row.pk}",
            "name": row.title,
            "numbers": [int(row.views), int(row.likes), downloads],
        }
        for row, downloads in downloads_of(Post.objects.with_counts(consistency="cached"))
    ]


def _visits() -> list[dict[str, object]]:
    return [
        {"id": key.replace(":", "-"), "name": key, "numbers": [value]}
        for key, value in named_counters("visits", consistency="cached").items()
    ]
