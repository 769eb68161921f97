"""Counters over HTTP, on Django REST framework: ``include("django_counters.rest.urls")``."""

from __future__ import annotations

from django_counters.rest.targets import expose

__all__ = ["expose"]
