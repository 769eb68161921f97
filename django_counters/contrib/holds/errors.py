"""Errors of holds."""

from __future__ import annotations

from django_counters.errors import CounterError


class UnsupportedHold(CounterError, ValueError):
    """{key} can't be held: {reason}."""

    key: str
    reason: str


class HoldLimitExceeded(CounterError):
    """{requested} of {key} can't be held: {held} of at most {limit} are held already.

    Nothing was changed. ``held_per_actor`` and ``held_in_total`` limit the held quantities.

    Attributes:
        key: the counter.
        requested: the quantity to hold.
        held: the quantity held before, by the actor or in total.
        limit: the limit of that.
    """

    key: str
    requested: int
    held: int
    limit: int


class HoldMissing(CounterError, LookupError):
    """The hold {token!r:.80} doesn't exist, or ended long ago."""

    token: object


class HoldEnded(CounterError):
    """The hold {token!r:.80} on {quantity} of {key} has ended before: it was {state}.

    Nothing was changed.

    Attributes:
        token: its token.
        key: the counter.
        quantity: the quantity it held.
        state: how it ended.
    """

    token: str
    key: str
    quantity: int
    state: str


class HoldExpired(HoldEnded):
    """The hold {token!r:.80} on {quantity} of {key} has expired.

    Others can hold the quantity now. Nothing was changed.
    """
