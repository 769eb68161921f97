"""The app: counts Redis streams and Kafka topics, and publishes increments to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from django_counters.features import Feature, Finding, Gauge, GaugeValue


class StreamsFeature(Feature):
    """The setting, command, publishers and metrics of the app."""

    settings = ("COUNTERS_STREAMS",)
    commands = {"consume": "django_counters.contrib.streams.consume"}

    def imported_first(self) -> list[str]:
        """Return the modules that publish to declared streams."""
        if not getattr(settings, "COUNTERS_STREAMS", None):
            return []
        client = ["django_counters.redis.client"] if find_spec("redis") else []
        return ["django_counters.contrib.streams.publishing", *client]

    def outlets(self) -> Mapping[str, Callable[[Any, str], Any]]:
        """Return the publisher of each stream."""
        from django_counters.contrib.streams.declared import stream_names

        return {name: partial(_publisher, to=name) for name in stream_names()}

    def gauges(self) -> tuple[Gauge, ...]:
        """Return the gauges of a stream's lag."""
        from django_counters.contrib.streams.lag import GAUGES

        return GAUGES

    def findings(self, using: str) -> Iterator[Finding | GaugeValue]:
        """Return the streams whose consumers are behind."""
        from django_counters.contrib.streams.lag import findings

        return findings(using)


def _publisher(recipe: Any, using: str, to: str) -> Any:
    from django_counters.contrib.streams.publishing import Publisher

    return Publisher(recipe, using, to)


class StreamsConfig(AppConfig):
    """Registers the check of the setting."""

    name = "django_counters.contrib.streams"
    label = "django_counters_streams"
    verbose_name = _("Streams")
    counters_feature = StreamsFeature()

    def ready(self) -> None:
        from django_counters.contrib.streams import checks  # noqa: F401 - it registers itself
