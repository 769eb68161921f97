"""What the server of the benchmarks serves: the API, and views as one writes them without it.

Both have the authentication, the parser and the renderer of JSON that REST framework has for all
views of this site (see the settings), and the same permission: whoever is logged in.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.db import connection
from django.urls import include, path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchmarks.models import NaiveCounter
from django_counters.contrib.limits import Limit
from django_counters.contrib.limits.rest import LimitThrottle
from django_counters.rest.views import IncrementView

# It may not grow with the run, nor refuse anything.
WIDE = "1000000/s"
UPSERT = (
    f"INSERT INTO {NaiveCounter._meta.db_table} AS counters (key, value) VALUES (%s, %s)"
    " ON CONFLICT (key) DO UPDATE SET value = counters.value + EXCLUDED.value RETURNING value"
)


@cache
def server() -> Any:
    """A client of redis-py as it comes, for this process."""
    return redis.Redis.from_url(settings.CACHES["default"]["LOCATION"])


class Bare(APIView):
    """INCRBY or GET, and nothing else."""

    def post(self, request: Request, key: str) -> Response:
        """Count in Redis."""
        sent: Any = request.data
        return Response({"value": server().incrby(key, int(sent["by"]))})

    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002
        """Read from Redis."""
        return Response({"value": int(server().get(key))})


class BareUpsert(APIView):
    """One statement, and nothing else."""

    def post(self, request: Request, key: str) -> Response:
        """Count in the database."""
        sent: Any = request.data
        with connection.cursor() as cursor:
            cursor.execute(UPSERT, [key, int(sent["by"])])
            return Response({"value": cursor.fetchone()[0]})


class InRedis(LimitThrottle):
    """A limit that nobody reaches, kept in Redis."""

    limit = Limit("redis", WIDE)


urlpatterns = [
    path("api/v1/", include("django_counters.rest.urls")),
    path("bare/<str:key>/increment", Bare.as_view()),
    path("bare/<str:key>/upsert", BareUpsert.as_view()),
    path("bare/<str:key>", Bare.as_view()),
    path("redis/<str:key>/increment", IncrementView.as_view(throttle_classes=[InRedis])),
]
