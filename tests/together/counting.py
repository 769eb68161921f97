"""A counter of each strategy with all that can belong to it, and the tables of all apps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.apps import apps

from django_counters import clock
from django_counters.models import Counter
from tests.adjustments.adjustables import NAMED

PACKAGE = "django_counters"
KEY = "c:page"
WHO: dict[str, Any] = {"reason": "a correction", "actor": "ops"}
MEASURED = {
    "PER": ["day"],
    "TAGS": {"country": 3},
    "UNIQUE": ["day"],
    "OCCURRENCES": ["day"],
}


def tables() -> list[type[Any]]:
    """Return the models of the core and of each app in ``django_counters.contrib``."""
    configs = [config for config in apps.get_app_configs() if config.name.startswith(PACKAGE)]
    return [model for config in configs for model in config.get_models()]


def rows_of(key: str) -> dict[str, int]:
    """How many rows each table has of a counter, of the tables that have some."""
    found = {}
    for model in tables():
        names = {field.name for field in model._meta.get_fields()}
        if "key" in names and (number := model._base_manager.filter(key=key).count()):
            found[model.__name__] = number
    return found


def declared(strategy: str) -> dict[str, Any]:
    ranked = {"TOP": ["day"]} if strategy in ("exact", "cached") else {}
    return {**(NAMED[strategy].declared or {}), **MEASURED, **ranked}


def days_ago(days: int) -> Any:
    return clock.utc() - timedelta(days=days)


def count(key: str = KEY) -> None:
    """500 yesterday and 7 today."""
    Counter.objects.increment(key, 500, at=days_ago(1), tags={"country": "DE"}, who="ann")
    Counter.objects.increment(key, 7, tags={"country": "DE"}, who="bob")
