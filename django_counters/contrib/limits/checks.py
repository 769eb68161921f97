"""The system check of ``COUNTERS_LIMITS_WHEN_AWAY``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps.config import AppConfig
from django.core.checks import CheckMessage, Error, register

from django_counters.contrib.limits.limit import limit_problems

#: How to correct each finding, by its id.
HINTS = {"E035": "Write one of them, or remove the setting."}


@register
def check_limits(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """E035: ``COUNTERS_LIMITS_WHEN_AWAY`` has an unknown value."""
    return [
        Error(message, hint=HINTS[code], id=f"counters.{code}")
        for code, message in limit_problems()
    ]
