"""The app of series, and what it adds to counters."""

from __future__ import annotations

from collections.abc import Mapping

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_counters.features import Feature

_FOLDER = __name__.rpartition(".")[0]
SPARKLINE_HINT = 'Declare per=["day"] on the field, or remove the Sparkline from list_display.'


class SeriesFeature(Feature):
    """The routes, the admin section and the column of series."""

    rest = f"{_FOLDER}.rest"
    panel = f"{_FOLDER}.admin.SeriesPanel"
    columns = (f"{_FOLDER}.admin.recent",)

    def hints(self) -> Mapping[str, str]:
        return {"E045": SPARKLINE_HINT}


class SeriesConfig(AppConfig):
    """The app."""

    name = "django_counters.contrib.series"
    label = "django_counters_series"
    verbose_name = _("Series")
    counters_feature = SeriesFeature()
