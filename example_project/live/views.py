"""The live page, and the numbers that it asks for again and again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.core.cache import cache
from django.db.models import CharField, OuterRef, Subquery, Sum
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError

from django_counters.contrib.holds.models import CounterHold
from django_counters.contrib.top import Ranked
from example_project.blog import top
from example_project.blog.downloads import downloads_of
from example_project.blog.models import Post
from example_project.live import buttons, charts
from example_project.named import named_counters
from example_project.race import standing
from example_project.shop.models import Product
from example_project.tally import STOCK
from example_project.visits import count_visit, visitors_today

KEPT_FOR = 0.2
CACHE_KEY = "live-counts"


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """The first page: the same views in a plain column and in our counter, side by side."""
    return render(request, "live/home.html", {"race": standing(), **buttons.shown()})


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """The page. Without JavaScript it shows the numbers of the moment."""
    shown = {"tables": _tables(), "charts": charts.all_charts(), "race": standing()}
    context = {**shown, **buttons.shown(), "week": top.of_the_week(), "rising": top.rising()}
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
            "fragments": {
                **charts.fragments(charts.all_charts()),
                **buttons.fragments(),
                "race": render_to_string("live/race.html", {"race": standing()}).strip(),
                "top-week": _rows(top.of_the_week()),
                "top-rising": _rows(top.rising()),
            },
        }
        with suppress(RedisError):
            # Redis expires in whole seconds, hence the second look at the age.
            cache.set(CACHE_KEY, found, timeout=1)
    return JsonResponse(found)


def _rows(rows: Sequence[Ranked]) -> str:
    return render_to_string("live/top.html", {"rows": rows})


def _tables() -> dict[str, list[dict[str, object]]]:
    return {"stock": _stock(), "posts": _posts(), "visits": _visits()}


def _stock() -> list[dict[str, object]]:
    mine = CounterHold.objects.filter(
        field=STOCK, key=Cast(OuterRef("pk"), CharField()), state=CounterHold.State.HELD
    )
    held = Subquery(mine.values("key").annotate(sum=Sum("quantity")).values("sum"))
    sold = Sum("orders__quantity", default=0)
    rows = Product.objects.annotate(sold=sold, held=Coalesce(held, 0)).order_by("pk")
    return [
        {"id": f"stock-{row.pk}", "name": row.name, "numbers": [int(row.stock), row.held, row.sold]}
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
    found = named_counters("visits", consistency="cached")
    rows: list[dict[str, object]] = [
        {"id": key.replace(":", "-"), "name": key, "numbers": [value]}
        for key, value in found.items()
    ]
    pages = [key.partition(":")[2] for key in found]
    # Nobody is counted twice who has seen several pages.
    today = int(visitors_today(*pages)) if pages else 0
    return [*rows, {"id": "visitors", "name": "different visitors today", "numbers": [today]}]
