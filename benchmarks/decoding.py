"""What the messages of the streams that are measured mean."""

from __future__ import annotations

from django_counters.intake.streams import Message


def clicks(message: Message) -> list[tuple[str, int]]:
    """One click on one of some products."""
    return [(message.fields["key"], 1)]
