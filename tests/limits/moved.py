"""The stores of limits as they are, but for their clock: it says what it is told."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import pytest

from django_counters.contrib.limits.algorithms import Draw, LimitState
from django_counters.contrib.limits.redis import TAKE, TAKE_LOGGED
from django_counters.contrib.limits.sql import SqlLimits
from django_counters.stores.sql.dialects import dialect_of
from tests.redis.counting import server

SECOND = 1_000_000
# What goes from the scripts: nothing expires, for that is by the clock of the server.
TIMED = {
    TAKE: ", 'PX', math.ceil((arrival - now) / 1000)",
    TAKE_LOGGED: "redis.call('PEXPIRE', KEYS[1], math.ceil((moment + span - now) / 1000))",
}


class Moved:
    """A limit of somebody, at a moment that tests choose: a whole day, to begin with."""

    def __init__(self, direct: Any) -> None:
        self.now = 20_718 * 86_400 * SECOND
        self.digest, self.direct = secrets.token_bytes(32), direct

    def in_database(self, draw: Draw) -> LimitState:
        told = copy(dialect_of("default"))
        told.microseconds = told.whole(str(self.now))
        store = SqlLimits("default")
        store._sql = type(store._sql)(told)
        return store.take(draw)

    def in_redis(self, draw: Draw) -> LimitState:
        whole = TAKE_LOGGED if draw.logged else TAKE
        script = whole.text.replace("redis.call('TIME')", "{ ARGV[4], ARGV[5] }")
        script = script.replace(TIMED[whole], "")
        assert "TIME'" not in script
        assert "PX" not in script
        assert "EXPIRE" not in script
        key = f"djc-test:{draw.digest.hex()}"
        numbers = (draw.cost, draw.full, draw.span, *divmod(self.now, SECOND))
        admitted, *told = self.direct.eval(script, 1, key, *numbers)
        self.direct.expire(key, 60)
        return LimitState(admitted == 1, *told)


@contextmanager
def moved() -> Iterator[Moved]:
    """A limit that nobody has taken from."""
    with server() as direct:
        yield Moved(direct)


Kept = Callable[[Moved, Draw], LimitState]
STORES = pytest.mark.parametrize(
    "kept", [Moved.in_redis, Moved.in_database], ids=["redis", "database"]
)
