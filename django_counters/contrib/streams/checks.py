"""The system check of ``COUNTERS_STREAMS``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.checks import CheckMessage, Error, register

from django_counters.contrib.streams.declared import stream_problems
from django_counters.options import written_namespaces

#: How to correct each finding, by its id.
HINTS = {
    "E039": "Correct the setting. A stream has BACKEND, LOCATION, STREAM or TOPIC, and either "
    "DECODE, the path of a function, or a BUFFER that publishes to it.",
}


@register
def check_streams(**_: Any) -> list[CheckMessage]:
    """E039: the contents of ``COUNTERS_STREAMS``. Connects to nothing."""
    return [
        Error(message, hint=HINTS[code], id=f"counters.{code}")
        for code, message in stream_problems(_published())
    ]


def _published() -> frozenset[str]:
    """Return the streams that buffers publish to, even if the setting has other errors."""
    buffers = (options.get("BUFFER") for options in written_namespaces())
    return frozenset(str(b["to"]) for b in buffers if isinstance(b, Mapping) and "to" in b)
