"""The amount that waits in files of buffers on this machine."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from django_counters import clock
from django_counters.write.adopting import standing


class Filed(NamedTuple):
    """The amount that waits for one database, of processes that live and of those that have ended.

    Attributes:
        files: how many there are.
        sums: how many counters wait, each once for each file that it is in.
        lag: the age of the oldest file; None where there is none.
    """

    files: int
    sums: int
    lag: timedelta | None


def filed(using: str) -> Filed:
    """What all files of buffers hold that this machine sees. Memory alone is not seen."""
    found = list(standing(using))
    made = min((one.head.made for one in found), default=None)
    lag = None if made is None else max(clock.utc() - made, timedelta(0))
    return Filed(len(found), sum(len(one.entries) for one in found), lag)
