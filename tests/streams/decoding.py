"""What the streams of these tests hold, and the functions that decode it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib import import_module

from django.db import connection

from django_counters.contrib.streams import KafkaMessage, Message

no_function = "a text"


def clicks(message: Message) -> Iterator[tuple[str, int]]:
    """Two counters for each message: how often at all, and what was clicked."""
    yield "all", 1
    yield message.fields["key"], int(message.fields.get("by", 1))


def one_by_one(message: Message) -> Iterator[tuple[str, int]]:
    """One counter for each message."""
    yield message.fields["key"], 1


def raising(message: Message) -> Iterator[tuple[str, int]]:
    """One counter for each message, or the error that it names."""
    if named := message.fields.get("raises"):
        module, _, name = named.rpartition(".")
        raise vars(import_module(module or "builtins"))[name]("not here")
    yield message.fields["key"], 1


def nothing(message: Message) -> list[tuple[str, int]]:
    """Whatever it says, nothing is counted."""
    return []


def topic_clicks(message: KafkaMessage) -> Iterator[tuple[str, int]]:
    """The same two counters, of a message of Kafka."""
    fields = json.loads(message.value or b"")
    yield "all", 1
    yield fields["key"], int(fields.get("by", 1))


def asking(message: Message | KafkaMessage) -> Iterator[tuple[str, int]]:
    """One counter for each message, by what the database makes of it."""
    fields = message.fields if isinstance(message, Message) else json.loads(message.value or b"")
    with connection.cursor() as cursor:
        cursor.execute("SELECT CAST(%s AS INTEGER)", (fields.get("by", "1"),))
        yield fields["key"], cursor.fetchone()[0]


def asking_elsewhere(message: Message) -> Iterator[tuple[str, int]]:
    """Asks a table that is not there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM nowhere")
    yield message.fields["key"], 1


def slowly(message: Message) -> Iterator[tuple[str, int]]:
    """One counter for each message, a tenth of a second for each."""
    time.sleep(0.1)
    yield message.fields["key"], 1


def topic_one_by_one(message: KafkaMessage) -> Iterator[tuple[str, int]]:
    """One counter for each message of Kafka."""
    yield (message.value or b"").decode(), 1
