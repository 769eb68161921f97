"""Rate limits in Redis: one key for each limited user or address, which one script changes."""

from __future__ import annotations

from importlib.resources import files

from django_counters.contrib.limits.algorithms import Draw, LimitState
from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.redis.aclient import aclient_of
from django_counters.redis.addresses import Address
from django_counters.redis.client import client_of
from django_counters.redis.commands import Script, ScriptRun, ServerRefused
from django_counters.redis.keys import state
from django_counters.tenants import tenant


def _read(name: str) -> str:
    return (files(__package__) / f"{name}.lua").read_text("utf-8")


TAKE = Script(_read("take"))
TAKE_LOGGED = Script(_read("take_logged"))


class RedisLimits:
    """Takes from buckets and logs. Redis expires them when they are full again."""

    def __init__(self, address: Address) -> None:
        self._client = client_of(address)
        self._aclient = aclient_of(address)
        self._prefix = address.prefix

    def take(self, draw: Draw) -> LimitState:
        """Take the cost if enough is left.

        Raises:
            CounterUnavailable: Redis is unavailable or refuses, or the answer was lost. The cost
                may have been taken.
        """
        try:
            admitted, *numbers = self._client.run(self._command(draw))
        except (ServerRefused, OutcomeUnknown) as error:
            raise self._unavailable(error) from error
        return LimitState(admitted == 1, *numbers)

    async def atake(self, draw: Draw) -> LimitState:
        """`take` from the event loop."""
        try:
            admitted, *numbers = await self._aclient.run(self._command(draw))
        except (ServerRefused, OutcomeUnknown) as error:
            raise self._unavailable(error) from error
        return LimitState(admitted == 1, *numbers)

    def _command(self, draw: Draw) -> ScriptRun:
        script = TAKE_LOGGED if draw.logged else TAKE
        name = tenant()
        key = state("l", draw.digest, f"{self._prefix}\0{name}" if name else self._prefix)
        return ScriptRun(script, (key,), (draw.cost, draw.full, draw.span))

    def _unavailable(self, error: Exception) -> CounterUnavailable:
        lost = isinstance(error, OutcomeUnknown)
        reason = "the answer was lost" if lost else str(error).rstrip(".")
        return CounterUnavailable(using=self._client.using, reason=reason)
