"""Rate limits in Redis, compared with those of the package limits, and with a bare command.

Processor time is that of this process: what a server spends on a request, where Redis is another
machine.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count

from benchmarks.capacity.meter import Meter
from benchmarks.cases.cached import client, location, prefix
from benchmarks.cases.cells import spending
from benchmarks.harness import Action, Pair, Stored, Work, adds_up
from django_counters.contrib.limits import Limit

SLICE = 200  # calls of one slice
# Neither refuses anything: a refusal is another way.
RATE = "100000000/day"
# A package that keeps a log keeps all of it.
LOGGED = "1000000/day"
_numbers = count()
Asked = Callable[[], object]


def _admitted(ask: Asked) -> tuple[Action, Stored]:
    """A call that is true if it is admitted, and how many were."""
    admitted = 0

    def action() -> None:
        nonlocal admitted
        admitted += bool(ask())

    return action, lambda: admitted


@contextmanager
def _beside(theirs: Action, stored: Stored) -> Iterator[Pair]:
    """A call of ours, for one person, and another way."""
    limit = Limit(f"benchmark{next(_numbers)}", RATE, burst=50_000_000, timeout=10)
    mine, admitted = _admitted(partial(limit.take, "user:auth.User:4711"))
    with client() as server:
        meter = Meter(server)
        subject, reference = (spending(meter, way, SLICE, 1, "client") for way in (mine, theirs))
        yield Pair(subject, reference, adds_up(admitted, stored))


def _url() -> str:
    """As the package writes sockets."""
    return location().replace("unix:", "redis+unix:", 1)


@contextmanager
def beside_package(strategy: str, rate: str = RATE) -> Iterator[Pair]:
    """The same rate there."""
    peer, strategies, storage = (
        importlib.import_module(name) for name in ("limits", "limits.strategies", "limits.storage")
    )
    limiter = strategies.STRATEGIES[strategy](storage.RedisStorage(_url()))
    item = peer.parse(rate)
    who = f"{prefix()}user:auth.User:{next(_numbers)}"
    theirs, admitted = _admitted(partial(limiter.hit, item, who))
    try:
        with _beside(theirs, admitted) as pair:
            yield pair
    finally:
        limiter.clear(item, who)


CASES: Mapping[str, Work] = {
    "limit-fixed": Work(partial(beside_package, "fixed-window")),
    "limit-moving": Work(partial(beside_package, "moving-window", LOGGED)),
}
