"""The error of likes."""

from __future__ import annotations

from django_counters.errors import CounterError


class UnsupportedActors(CounterError, LookupError):
    """{key} doesn't count once for each actor. Declare once."""

    key: str
