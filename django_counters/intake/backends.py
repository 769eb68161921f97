"""All backends of streams, by their names in the settings."""

from __future__ import annotations

from collections.abc import Mapping

from django_counters.intake import kafka_stream, redis_stream
from django_counters.intake.backend import Backend

BACKENDS: Mapping[str, Backend] = {"redis": redis_stream.BACKEND, "kafka": kafka_stream.BACKEND}
