"""The API as a project has it."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [path("api/v1/", include("django_counters.rest.urls"))]
