"""The system check of ``COUNTERS_STREAMS``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.apps.config import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import register as register_check

from django_counters.contrib.streams.declared import stream_problems

#: How to correct each finding, by its id.
HINTS = {
    "E039": "Write it as the message says: a stream has BACKEND, LOCATION, STREAM or TOPIC, "
    "and DECODE, which is the path of a function, or a BUFFER that publishes to it.",
}


def register() -> None:
    """Register the check. Called once, when the app is ready."""
    register_check(check_streams)


def check_streams(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """E039: the contents of ``COUNTERS_STREAMS``. Connects to nothing."""
    return [
        Error(message, hint=HINTS[code], id=f"counters.{code}")
        for code, message in stream_problems(_published())
    ]


def _published() -> frozenset[str]:
    """Return the names that buffers publish to, even if the setting has other errors."""
    setting = getattr(settings, "COUNTERS", None)
    declared = setting.values() if isinstance(setting, Mapping) else ()
    found = (one.get("BUFFER") for one in declared if isinstance(one, Mapping))
    return frozenset(str(one["to"]) for one in found if isinstance(one, Mapping) and "to" in one)
