"""The addresses that the pages speak of."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from django_counters.models import Counter


def like(request: HttpRequest, pk: int) -> HttpResponse:
    """Count a like."""
    Counter.objects.increment(f"likes:post:{pk}")
    return HttpResponse()


urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("django_counters.rest.urls")),
    path("posts/<int:pk>/like/", like),
]
