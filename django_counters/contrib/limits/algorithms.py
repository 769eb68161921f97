"""The algorithms of rate limits: the requests to a store, and the results. No I/O.

A limit of N in a time admits:

- ``gcra``: N at once, and one more after each N-th part of the time: up to 2N - 1 in some window of
  that time. With a burst of b, b at once, and N - b more in the time: at most N in any window.
- ``fixed``: N in each of consecutive windows: up to 2N around the turn of two.
- ``log``: N in any window. It stores a moment for each admitted request.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple, Protocol, get_args

from django_counters.access import Rate, check_burst
from django_counters.options import did_you_mean

Name = Literal["gcra", "fixed", "log"]
NAMES: tuple[Name, ...] = get_args(Name)
#: The longest log. Each request reads and writes all of it.
LONGEST_LOG = 1000
_SECOND = 1_000_000


class LimitResult(NamedTuple):
    """The result of `Limit.take`. It is true if the request is admitted.

    Attributes:
        allowed: whether the cost was taken; otherwise nothing was.
        remaining: how many more could be taken at once.
        retry_after: seconds until the cost could be taken; 0 if it was.
        more: seconds until one more than ``remaining`` could be taken.
        counted: False if the store was unavailable. The request may not have been counted, and
            ``allowed`` is the limit's ``when_away``.
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
        digest: the digest of the limit and of the limited user, address or text.
        cost: how much to take, all or none.
        full: the capacity.
        span: microseconds. A bucket counts from the end of the present span on; an entry of a log
            counts for so long.
        logged: whether the store keeps a log instead of a bucket.
    """

    digest: bytes
    cost: int
    full: int
    span: int = 1
    logged: bool = False


class LimitState(NamedTuple):
    """The state of a limit after a draw.

    Attributes:
        admitted: whether enough was left, and was taken.
        used: how much of ``full`` is taken now; for a bucket it can be negative.
        wait: microseconds: for a bucket until the end of the span, for a log until enough is left.
        more: the same; for a log until its oldest entry expires.
    """

    admitted: bool
    used: int
    wait: int
    more: int


class LimitsStore(Protocol):
    """Stores the state of limits."""

    def take(self, draw: Draw) -> LimitState:
        """Take the cost if enough is left, in one atomic step."""

    async def atake(self, draw: Draw) -> LimitState:
        """`take` for async code."""


class Algorithm(Protocol):
    """An algorithm. ``capacity`` is the most that can be taken at once."""

    capacity: int

    def draw(self, digest: bytes, cost: int) -> Draw:
        """Return the request to the store."""

    def result(self, state: LimitState, cost: int) -> LimitResult:
        """Return the result for the caller."""


@dataclass(slots=True)
class Gcra:
    """A token bucket as one number: the moment when it will be full again.

    Each taken token moves that moment by an interval, at most to the time that a full bucket needs
    from now. Intervals are whole microseconds, rounded up.
    """

    capacity: int
    interval: int

    def draw(self, digest: bytes, cost: int) -> Draw:
        """Return a draw in microseconds."""
        return Draw(digest, cost * self.interval, self.capacity * self.interval)

    def result(self, state: LimitState, cost: int) -> LimitResult:
        """Return whole tokens: a bucket may also hold a part of one."""
        interval, full = self.interval, self.capacity * self.interval
        left = min(max(full - max(state.used, 0), 0), full)
        remaining = left // interval
        # At least 1: a bucket that refused had too little then, even if it has enough now.
        wait = 0 if state.admitted else max(state.used + cost * interval - full, 1)
        more = max(state.used + (remaining + 1) * interval - full, 1)
        return LimitResult(state.admitted, remaining, wait / _SECOND, more / _SECOND)


@dataclass(slots=True)
class WindowLimit:
    """A number in a fixed window, or, with a log, in any window."""

    capacity: int
    window: int
    logged: bool

    def draw(self, digest: bytes, cost: int) -> Draw:
        """Return a draw in requests."""
        return Draw(digest, cost, self.capacity, self.window, self.logged)

    def result(self, state: LimitState, cost: int) -> LimitResult:  # noqa: ARG002 - the store has counted
        """Return the result."""
        remaining = min(max(self.capacity - state.used, 0), self.capacity)
        wait = 0 if state.admitted else max(state.wait, 1)
        return LimitResult(state.admitted, remaining, wait / _SECOND, max(state.more, 1) / _SECOND)


def algorithm_of(name: str, rate: Rate, burst: int | None) -> Algorithm:
    """Return the algorithm with a name.

    Raises:
        ValueError: the name is unknown, or the algorithm doesn't support the rate or the burst.
    """
    if name not in NAMES:
        raise ValueError(f"algorithm can't be {name!r}.{did_you_mean(name, NAMES)}")
    window = ceil(rate.seconds * _SECOND)
    if name == "gcra":
        if burst is not None:
            check_burst(rate, burst)
        interval = ceil(rate.seconds * _SECOND / (rate.number - (burst or 0)))
        return Gcra(burst or rate.number, interval)
    if burst is not None:
        raise ValueError(f"burst needs algorithm='gcra', not {name!r}.")
    if name == "log" and rate.number > LONGEST_LOG:
        problem = f"A log can't store {rate.number} requests. The most is {LONGEST_LOG}."
        raise ValueError(problem)
    return WindowLimit(rate.number, window, name == "log")
