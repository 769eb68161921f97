"""The errors of streams."""

from __future__ import annotations

from django_counters.errors import CounterError


class DecodeFailed(CounterError):
    """`DECODE` of {stream} can't work: {reason}.

    The message isn't the cause: a module or a name is missing, or a service that `DECODE` calls is
    unavailable. The page isn't counted, and its position hasn't moved.
    """

    stream: str
    reason: str


class UnknownSignature(CounterError):
    """{stream} {place} has another key. Add it to SECRET_KEY_FALLBACKS; if forged, set UNSIGNED.

    Nothing is lost: the page isn't counted, and its position hasn't moved.
    """

    stream: str
    place: str
