"""The algorithms of rate limits: the questions to a store, and the meaning of the answers. No I/O.

What each admits, of a limit of N in a time:

- ``gcra``: N at once, and one more after each N-th part of the time: up to 2N - 1 in some window of
  that time. With a burst of b, b at once, and N - b more in the time: at most N in any window.
- ``fixed``: N in each window of a row of windows: up to 2N around the turn of two.
- ``log``: N in any window. It keeps a moment for each one that was taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple, Protocol, get_args

from django_counters.options import did_you_mean
from django_counters.rates import Rate, check_burst

Name = Literal["gcra", "fixed", "log"]
NAMES: tuple[Name, ...] = get_args(Name)
#: The most that a log is for: each request reads and writes all of it.
LONGEST_LOG = 1000
_SECOND = 1_000_000


class Taken(NamedTuple):
    """The answer of a limit. It is true where the request is admitted.

    Attributes:
        allowed: whether what was asked was taken; otherwise nothing was.
        remaining: how many more could be taken at once.
        retry_after: seconds until as many could be taken; 0 if they were.
        more: seconds until one more than ``remaining`` could be taken.
        counted: False where the store was away: the request was not counted, and ``allowed`` is the
            setting of the limit for that case.
    """

    allowed: bool
    remaining: int
    retry_after: float
    more: float
    counted: bool = True

    def __bool__(self) -> bool:
        return self.allowed


class Draw(NamedTuple):
    """The amount to take under a limit.

    Attributes:
        digest: names what is kept: for which limit, and for whom.
        cost: how much to take, all or none.
        full: how much there is at most.
        span: microseconds. A bucket counts from the end of the present span on; from a log each
            entry goes after so long.
        logged: whether a log is kept of all that was taken, instead of a bucket.
    """

    digest: bytes
    cost: int
    full: int
    span: int = 1
    logged: bool = False


class Drawn(NamedTuple):
    """The state that was found.

    Attributes:
        admitted: whether there was enough, and it was taken.
        used: how much is taken by now, of ``full``; of a bucket also less than nothing.
        wait: microseconds; of a bucket until the end of the span, of a log until there is enough.
        more: the same; of a log until its oldest entry goes.
    """

    admitted: bool
    used: int
    wait: int
    more: int


class LimitsStore(Protocol):
    """Keeps what was taken under limits."""

    def take(self, draw: Draw) -> Drawn:
        """Take, if there is enough: one atomic step."""

    async def atake(self, draw: Draw) -> Drawn:
        """`take` for async code."""


class Algorithm(Protocol):
    """Knows how a limit is kept. ``capacity``: the most that can be taken at once."""

    capacity: int

    def draw(self, digest: bytes, cost: int) -> Draw:
        """What to ask of the store."""

    def told(self, found: Drawn, cost: int) -> Taken:
        """What its answer means."""


@dataclass(slots=True)
class Gcra:
    """A token bucket as one number: the moment at which it will be full again.

    Each token that is taken moves it by an interval, unless it would be further ahead than a full
    bucket. Intervals are whole microseconds, rounded up.
    """

    capacity: int
    interval: int

    def draw(self, digest: bytes, cost: int) -> Draw:
        """Amounts are microseconds."""
        return Draw(digest, cost * self.interval, self.capacity * self.interval)

    def told(self, found: Drawn, cost: int) -> Taken:
        """Tokens, of which there may be a part."""
        interval, full = self.interval, self.capacity * self.interval
        left = min(max(full - max(found.used, 0), 0), full)
        remaining = left // interval
        # At least 1: a bucket that has refused had too little then, even if it has enough now.
        wait = 0 if found.admitted else max(found.used + cost * interval - full, 1)
        more = max(found.used + (remaining + 1) * interval - full, 1)
        return Taken(found.admitted, remaining, wait / _SECOND, more / _SECOND)


@dataclass(slots=True)
class Counted:
    """So many in a window: a fixed one, or, where a log is kept, any."""

    capacity: int
    window: int
    logged: bool

    def draw(self, digest: bytes, cost: int) -> Draw:
        """Amounts are numbers."""
        return Draw(digest, cost, self.capacity, self.window, self.logged)

    def told(self, found: Drawn, cost: int) -> Taken:  # noqa: ARG002 - the store has counted
        """Numbers."""
        remaining = min(max(self.capacity - found.used, 0), self.capacity)
        wait = 0 if found.admitted else max(found.wait, 1)
        return Taken(found.admitted, remaining, wait / _SECOND, max(found.more, 1) / _SECOND)


def algorithm_of(name: str, rate: Rate, burst: int | None) -> Algorithm:
    """The algorithm of a name.

    Raises:
        ValueError: there is none, or it cannot keep the rate, or have the burst.
    """
    if name not in NAMES:
        raise ValueError(f"There is no algorithm {name!r}.{did_you_mean(name, NAMES)}")
    window = ceil(rate.seconds * _SECOND)
    if name == "gcra":
        return _gcra(rate, burst)
    if burst is not None:
        raise ValueError(f"A burst is for 'gcra', not for {name!r}.")
    if name == "log" and rate.number > LONGEST_LOG:
        raise ValueError(f"A log of {rate.number} is too long: up to {LONGEST_LOG}.")
    return Counted(rate.number, window, name == "log")


def _gcra(rate: Rate, burst: int | None) -> Gcra:
    if burst is not None:
        check_burst(rate, burst)
    interval = ceil(rate.seconds * _SECOND / (rate.number - (burst or 0)))
    return Gcra(burst or rate.number, interval)
