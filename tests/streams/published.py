"""What tests of buffers that publish have in common."""

from __future__ import annotations

import json
from typing import Any

from django_counters.contrib import buffers
from django_counters.contrib.streams.publishing import signer
from django_counters.contrib.streams.redis import PUBLISHED
from django_counters.models import Counter
from django_counters.registry import registry
from tests.streams.conftest import Clicks


def publish(by: int = 1, key: str = "hits:home") -> None:
    Counter.objects.increment(key, by)
    buffers.flush()


def published(clicks: Clicks) -> list[dict[str, Any]]:
    """What is in the stream, part by part."""
    entries = [fields for part in clicks.parts for _, fields in clicks.client.xrange(part)]
    return [opened(fields[PUBLISHED]) for fields in entries if PUBLISHED in fields]


def opened(text: str) -> dict[str, Any]:
    """The contents of a message that a buffer has published, whoever has signed it."""
    found: dict[str, Any] = json.loads(text.rpartition(":")[0])
    return found


def numbers(clicks: Clicks) -> list[int]:
    return [one["number"] for one in published(clicks)]


def again(
    clicks: Clicks, found: dict[str, Any], part: int = 0, stream: str = "clicks", **changed: object
) -> None:
    """Add a message that was published, changed or not, and signed for a stream."""
    text = signer(stream).sign(json.dumps({**found, **changed}))
    clicks.client.xadd(clicks.parts[part], {PUBLISHED: text})


def reached() -> list[str]:
    """How far the histories of buffers are in the totals."""
    return sorted(at for at, _ in registry.positions("default").of("buffer").values())
