"""What the streams of these tests hold, and the functions that decode it."""

from __future__ import annotations

from collections.abc import Iterator

from django_counters.intake.streams import Message

no_function = "a text"


def clicks(message: Message) -> Iterator[tuple[str, int]]:
    """Two counters for each message: how often at all, and what was clicked."""
    yield "all", 1
    yield message.fields["key"], int(message.fields.get("by", 1))


def one_by_one(message: Message) -> Iterator[tuple[str, int]]:
    """One counter for each message."""
    yield message.fields["key"], 1


def nothing(message: Message) -> list[tuple[str, int]]:
    """Whatever it says, nothing is counted."""
    return []
