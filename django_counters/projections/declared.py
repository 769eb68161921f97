"""The measures that the settings and the models declare."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db import router

from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.tables.standing import COUNTERS
from django_counters.tables.total import TotalField


def declared_measures(using: str) -> Iterator[Measure]:
    """The measures of the counters that a database holds."""
    if COUNTERS.stands_in(using):
        for policy in registry.policies().values():
            if policy.measure is not None:
                yield policy.measure
    for model in apps.get_models(include_auto_created=True):
        if router.allow_migrate_model(using, model):
            for field in model._meta.local_concrete_fields:
                if isinstance(field, TotalField) and field.measure is not None:
                    yield field.measure
