"""The errors of distinct actors."""

from __future__ import annotations

from django_counters.errors import CounterError


class InvalidSketch(CounterError, ValueError):
    """This isn't a sketch of a set: {reason}.

    Raised instead of counting data that was damaged, or that this app never stored.
    """

    reason: str
