"""Rates: how many, in how much time. Written as ``"10/min"``."""

from __future__ import annotations

import re
from functools import lru_cache
from math import isnan
from typing import NamedTuple

from django_counters.options import is_integer

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_WRITTEN = re.compile(r"\s*(\d{1,12})\s*/\s*(\d{0,6})\s*([a-z]+)\s*", re.ASCII)
# Redis counts microseconds in doubles, which are exact for some centuries.
LONGEST = 366 * 86_400


class Rate(NamedTuple):
    """How many are admitted, in how many seconds. As many may come at once.

    Attributes:
        number: how many; also what a full bucket holds.
        seconds: in how much time an empty bucket is full again.
    """

    number: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.number}/{self.seconds:g}s"


@lru_cache(maxsize=256)
def rate_of(text: str) -> Rate:
    """The rate that a text means: ``"10/min"``, ``"5/s"``, ``"1000/day"``, ``"30/10s"``.

    Units are s, m, h and d, or the words for them: sec, second, min, minute, hour, day.

    Raises:
        ValueError: it means none, or one that admits nothing, or one of more than a year.
    """
    # Settings are read from here, too: they may be anything.
    found = _WRITTEN.fullmatch(str(text))
    unit = _UNITS.get(found[3]) if found else None
    if found is None or unit is None:
        raise ValueError(f"{text!r:.80} is not a rate; one is written as '10/min' or '30/10s'.")
    rate = Rate(int(found[1]), int(found[2] or 1) * _SECONDS[unit])
    check_rate(rate)
    return rate


def check_rate(rate: Rate) -> None:
    """Refuse a rate that no bucket can keep.

    Raises:
        ValueError: it is not of numbers; it admits nothing, or more than one in a microsecond; or
            its time is none or more than a year.
    """
    number: object = rate.number
    seconds: object = rate.seconds
    if type(number) is not int:
        raise ValueError(f"{number!r:.80} is not an integer: a rate is Rate(10, 60), or '10/min'.")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or isnan(seconds):
        raise ValueError(f"{seconds!r:.80} is not a time: a rate is Rate(10, 60), or '10/min'.")
    if rate.number < 1:
        raise ValueError(f"{rate} admits nothing; the least is 1.")
    if not 0 < rate.seconds <= LONGEST:
        raise ValueError(f"{rate} is not of a time above zero and up to a year.")
    if rate.number > rate.seconds * 1_000_000:
        raise ValueError(f"{rate} is more than one in a microsecond.")


def check_burst(rate: Rate, burst: int) -> None:
    """Refuse a burst that no bucket of a rate can have.

    Raises:
        ValueError: it is no integer from 1 to the number less one; or what is left of the rate
            would need more than a year to bring it back.
    """
    most = rate.number - 1
    if not is_integer(burst, 1, most):
        raise ValueError(f"The burst of {rate} is an integer from 1 to {most}, not {burst!r}.")
    if burst * rate.seconds > LONGEST * (rate.number - burst):
        raise ValueError(
            f"With a burst of {burst}, {rate} would take more than a year to come back."
        )
