"""What the messages of the streams that are measured mean."""

from __future__ import annotations

from django_counters.contrib.streams import KafkaMessage, Message


def clicks(message: Message) -> list[tuple[str, int]]:
    """One click on one of some products."""
    return [(message.fields["key"], 1)]


def topic_clicks(message: KafkaMessage) -> list[tuple[str, int]]:
    """The same, of a message of Kafka."""
    return [(message.value.decode(), 1)] if message.value else []
