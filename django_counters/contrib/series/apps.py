"""The app of series, and what it adds to counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.series.options import (
    HINTS,
    OCCURRENCE,
    OCCURRENCES,
    OPTIONS,
    QUOTAS,
    SERIES,
    SUM,
    TAGS_TABLE,
    history_problems,
)
from django_counters.features import Feature, Job

_FOLDER = __name__.rpartition(".")[0]


class SeriesFeature(Feature):
    """The rows, options, quotas, job, routes and admin pages of series."""

    kinds = (SUM, OCCURRENCE)
    options = (SERIES, QUOTAS, OCCURRENCES)
    projector = f"{_FOLDER}.cells.PROJECTOR"
    namespace_options = OPTIONS
    tables = (SUM.table, OCCURRENCE.table, TAGS_TABLE, "django_counters_countersample")
    left = "cells, values of tags and recorded totals"
    rest = f"{_FOLDER}.rest"
    reads: Mapping[str, str] = {"history": "django_counters.view_counter"}
    panel = f"{_FOLDER}.admin.SeriesPanel"
    columns = (f"{_FOLDER}.admin.recent",)

    def hints(self) -> Mapping[str, str]:
        return HINTS

    def namespace_problems(
        self,
        name: str,  # noqa: ARG002
        declared: Mapping[Any, Any],
    ) -> Iterator[tuple[str, str]]:
        return (("E025", message) for message in history_problems(declared))

    def imported_first(self) -> Sequence[str]:
        return [f"{_FOLDER}.cells", f"{_FOLDER}.guards"]

    def functions(self, vendor: str) -> Sequence[str]:
        from django_counters.contrib.series.sql import WITHIN

        return [WITHIN] if vendor == "postgresql" else []

    def jobs(self) -> Sequence[Job]:
        text = _("record the totals of namespaces with HISTORY")
        return [Job("history", 300, f"{_FOLDER}.recording.history", text)]

    def prune(self, using: str) -> Mapping[str, int]:
        from django_counters.contrib.series.recording import prune_history
        from django_counters.contrib.series.upkeep import prune_cells

        return {"cells": prune_cells(using), "samples": prune_history(using)}

    def keeps_rows(self, field: Any) -> bool:  # noqa: ARG002
        """Records have no recorded totals: Django deletes them without loading them."""
        return False

    def forget(self, owner: str, keys: Sequence[str], using: str) -> None:
        """Delete the recorded totals of named counters. Records have none."""
        from django_counters.contrib.series.models import CounterSample

        if not owner:
            CounterSample._base_manager.using(using).filter(key__in=keys).delete()


class SeriesConfig(AppConfig):
    """The app."""

    name = "django_counters.contrib.series"
    label = "django_counters_series"
    verbose_name = _("Series")
    default_auto_field = "django.db.models.BigAutoField"
    counters_feature = SeriesFeature()
