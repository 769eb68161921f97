"""The app of rate limits, and what it adds to counters."""

from __future__ import annotations

from collections.abc import Mapping

from django.apps import AppConfig
from django.core.checks import register
from django.utils.translation import gettext_lazy as _

from django_counters.features import Feature, Tally

_FOLDER = __name__.rpartition(".")[0]


class LimitsFeature(Feature):
    """The setting, metric and API limits of the app."""

    settings = ("COUNTERS_LIMITS_WHEN_AWAY",)
    charge = f"{_FOLDER}.rest.charge_changes"
    keeps_rates = True
    tallies = (
        Tally(
            "django_counters_limits_away_total",
            "Requests that a limit could not count, because its store was unavailable; decision is "
            "admit or refuse.",
            ("limit", "decision"),
            f"{_FOLDER}.limit.limit_away",
        ),
    )

    def hints(self) -> Mapping[str, str]:
        """Return how to correct the setting."""
        return {"E035": "Write one of them, or remove the setting."}

    def prune(self, using: str) -> Mapping[str, int]:
        """Delete the rows of limits that are full again."""
        from django_counters.contrib.limits.limit import prune_limits

        return {"buckets": prune_limits(using)}

    def remembers(self) -> bool:
        """Return whether any limit of this process is in Redis."""
        from django_counters.contrib.limits.limit import are_in_redis

        return are_in_redis()


class LimitsConfig(AppConfig):
    """Registers the check of the setting."""

    name = "django_counters.contrib.limits"
    label = "django_counters_limits"
    verbose_name = _("Rate limits")
    counters_feature = LimitsFeature()

    def ready(self) -> None:
        from django_counters.contrib.limits.limit import check_limits

        register(check_limits)
