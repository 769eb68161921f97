"""Counts Redis streams and Kafka topics exactly once, and publishes increments to them.

Add ``"django_counters.contrib.streams"`` to ``INSTALLED_APPS``. Names are resolved on first use:
Django imports this package before it has models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_counters.features import exported

if TYPE_CHECKING:
    from django_counters.contrib.streams.declared import Stream as Stream
    from django_counters.contrib.streams.declared import streams as streams
    from django_counters.contrib.streams.errors import DecodeFailed as DecodeFailed
    from django_counters.contrib.streams.errors import UnknownSignature as UnknownSignature
    from django_counters.contrib.streams.kafka import KafkaMessage as KafkaMessage
    from django_counters.contrib.streams.redis import Message as Message

_HOMES = {
    "DecodeFailed": "errors",
    "KafkaMessage": "kafka",
    "Message": "redis",
    "Stream": "declared",
    "UnknownSignature": "errors",
    "streams": "declared",
}

__getattr__, __dir__, __all__ = exported(__name__, _HOMES)
