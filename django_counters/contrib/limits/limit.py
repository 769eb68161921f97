"""A rate limit with a name, its store, and its decision while the store is unavailable."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import cache as cache_results
from importlib.util import find_spec
from typing import Any, Literal, get_args

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, models, router
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils.asyncio import async_unsafe

from django_counters import principal
from django_counters.access import Rate, check_rate, rate_of
from django_counters.contrib.limits import algorithms
from django_counters.contrib.limits.models import CounterLimit
from django_counters.contrib.limits.sql import SqlLimits
from django_counters.errors import CounterUnavailable
from django_counters.hints import message_of
from django_counters.options import did_you_mean, is_integer
from django_counters.redis import addresses
from django_counters.signals import PlainSignal

if find_spec("redis"):
    # If a child is forked while another thread imports redis, that child waits forever.
    from django_counters.contrib.limits import redis  # noqa: F401

logger = logging.getLogger("django_counters")

WhenAway = Literal["refuse", "admit"]
WHEN_AWAY: tuple[WhenAway, ...] = get_args(WhenAway)
By = Literal["user", "address", "user_or_address"] | Callable[[HttpRequest], str | None]
_BY = ("user", "address", "user_or_address")
LONGEST_NAME = 200
# Seconds after which clients retry while the store is unavailable.
_RETRY = 1.0
# The names of limits whose store didn't answer the last call; at most `_ROOM` of them.
_away: set[str] = set()
_ROOM = 1000
# The caches of all limits.
_cached: set[str] = set()
#: Sent for each call that a limit could not count because its store was unavailable. Arguments:
#: ``limit`` (its name), ``decision`` (``"admit"`` or ``"refuse"``).
limit_away = PlainSignal()


@dataclass(frozen=True)
class Limit:
    """A rate limit: so many calls in a time, for each user, address or text.

    It holds under any number of concurrent calls, on all servers that share the store: each call is
    one atomic step there. Limits with the same name, rate, burst and algorithm are one limit. "Now"
    is the store's clock, in microseconds (SQLite: milliseconds).

    In the database a call is part of the caller's transaction, if there is one: a rollback gives
    back the cost, and other calls for the same user, address or text wait for its end.

    Attributes:
        name: 1 to 200 characters. Clients see it.
        rate: such as ``"100/min"``.
        burst: how many at once, with ``"gcra"``. No window of the time then has more than the rate.
            Without it, as many as the rate are admitted at once, and some window may have twice as
            many, less one.
        by: who is limited: ``"user"`` (no limit without a login), ``"address"``,
            ``"user_or_address"``, or a plain function of the request that returns a text, or None
            for no limit.
        algorithm: ``"gcra"``, ``"fixed"`` or ``"log"``.
        network: how many bits of an IPv6 address are one client: 16 to 64.
        cache: the alias of ``CACHES`` whose Redis keeps the limit. If it is None or isn't a Redis,
            the database keeps it.
        using: the alias of the database; by default the router chooses.
        timeout: seconds to wait for Redis: for the connection, and for the answer.
        when_away: ``"refuse"`` or ``"admit"`` calls while the store is unavailable; the default is
            ``COUNTERS_LIMITS_WHEN_AWAY``, which is ``"refuse"``.

    Raises:
        ValueError: an argument is wrong.
    """

    name: str
    rate: str | Rate
    _: KW_ONLY
    burst: int | None = None
    by: By = "user_or_address"
    algorithm: algorithms.Name = "gcra"
    network: int = principal.NETWORK_BITS
    cache: str | None = "default"
    using: str | None = None
    timeout: float = addresses.TIMEOUT
    when_away: WhenAway | None = None
    parsed: Rate = field(init=False, repr=False, compare=False)
    _algorithm: algorithms.Algorithm = field(init=False, repr=False, compare=False)
    _start: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise ValueError(f"The limit {self.name!r:.80}: {problem}")
        rate = self.rate if isinstance(self.rate, Rate) else rate_of(self.rate)
        check_rate(rate)
        identity = (self.algorithm, rate.number, float(rate.seconds), self.burst, self.name)
        object.__setattr__(self, "parsed", rate)
        object.__setattr__(
            self, "_algorithm", algorithms.algorithm_of(self.algorithm, rate, self.burst)
        )
        object.__setattr__(self, "_start", repr(identity).encode())
        if self.cache:
            _cached.add(self.cache)

    def _problems(self) -> Iterator[str]:
        name: object = self.name
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
            yield f"name must be a text of 1 to {LONGEST_NAME} characters."
        by: object = self.by
        if isinstance(by, str) and by not in _BY:
            yield f"by can't be {by!r}.{did_you_mean(by, _BY)}"
        elif not isinstance(by, str) and (not callable(by) or iscoroutinefunction(by)):
            yield f"by must be one of {', '.join(_BY)}, or a plain function, not {by!r}."
        if not is_integer(self.network, 16, principal.NETWORK_BITS):
            yield f"network must be 16 to {principal.NETWORK_BITS} bits, not {self.network!r}."
        if not addresses.is_timeout(self.timeout):
            yield f"timeout must be a number of seconds above 0, not {self.timeout!r}."
        if self.when_away not in (None, *WHEN_AWAY):
            yield f"when_away must be 'refuse' or 'admit', not {self.when_away!r}."

    @property
    def capacity(self) -> int:
        """Return the most that can be taken at once."""
        return self._algorithm.capacity

    def check_cost(self, cost: int) -> None:
        """Refuse a cost that a full limit doesn't have.

        Raises:
            ValueError: it isn't an integer from 1 to `capacity`.
        """
        if not is_integer(cost, 1, self.capacity):
            problem = f"cost must be an integer from 1 to {self.capacity}, not {cost!r}"
            raise ValueError(f"{problem}: the limit {self.name!r} never admits more at once.")

    def of(self, request: HttpRequest) -> str | None:
        """Return the user, address or text that a request counts for; None for no limit.

        Raises:
            ImproperlyConfigured: the limit is by user, and no middleware has set ``request.user``.
            TypeError: the function ``by`` didn't return a text or None.
        """
        if self.by == "address":
            return f"address:{principal.address_of_client(request, self.network)}"
        if self.by == "user_or_address":
            return principal.principal_of(request, self.network)
        if self.by == "user":
            if not hasattr(request, "user"):
                raise ImproperlyConfigured(
                    "A limit by user needs request.user. Put the limit after "
                    "AuthenticationMiddleware."
                )
            user = principal.known_user(request)
            return None if user is None else principal.user_text(user)
        who = self.by(request)
        if who is not None and not isinstance(who, str):
            raise TypeError(f"by of {self.name!r} must return a text or None, not {who!r:.80}.")
        return who

    async def aof(self, request: HttpRequest) -> str | None:
        """`of` for async code: in a thread, because reading the user may query the database."""
        if self.by == "address":
            return self.of(request)
        return await sync_to_async(self.of)(request)

    @async_unsafe("take() can't run in async code. Await atake() instead.")
    def take(self, who: str | models.Model, cost: int = 1) -> algorithms.LimitResult:
        """Take ``cost`` for a user or address, all or none, in one atomic step and round trip.

        If the store is unavailable, the result has ``counted=False``.

        Args:
            who: any text, or a saved user. Only a digest of it is stored.
            cost: how many to take.

        Raises:
            ValueError: ``cost`` is above `capacity`, or ``who`` isn't a text or a saved user.
            InvalidConfiguration: the cache can't keep the limit.
        """
        draw = self._draw(who, cost)
        try:
            state = store_of(self.cache, self.using, self.timeout).take(draw)
        except CounterUnavailable as error:
            return self._uncounted(error)
        return self._result(state, cost)

    async def atake(self, who: str | models.Model, cost: int = 1) -> algorithms.LimitResult:
        """`take` for async code: from the event loop with Redis, in a thread with the database."""
        draw = self._draw(who, cost)
        try:
            state = await store_of(self.cache, self.using, self.timeout).atake(draw)
        except CounterUnavailable as error:
            return self._uncounted(error)
        return self._result(state, cost)

    def _draw(self, who: str | models.Model, cost: int) -> algorithms.Draw:
        self.check_cost(cost)
        if isinstance(who, models.Model) and who.pk is not None:
            who = principal.user_text(who)
        if not isinstance(who, str) or not who:
            raise ValueError(f"who={who!r:.80} isn't a text or a saved user.")
        named = self._start + who.encode(errors="surrogatepass")
        return self._algorithm.draw(hashlib.sha256(named).digest(), cost)

    def _result(self, state: algorithms.LimitState, cost: int) -> algorithms.LimitResult:
        if self.name in _away:
            _away.discard(self.name)
            logger.warning("The store of the limit %r answers again.", self.name)
        return self._algorithm.result(state, cost)

    def _uncounted(self, error: CounterUnavailable) -> algorithms.LimitResult:
        """Return the decision while the store is unavailable. Logs when that begins and ends."""
        decided = self.when_away or when_away()
        limit_away.tell(Limit, limit=self.name, decision=decided)
        if self.name not in _away:
            if len(_away) >= _ROOM:
                # A project may make up a name for each request. Its lines are then repeated.
                _away.clear()
            _away.add(self.name)
            text = "The store of the limit %r is unavailable, so %s: %s"
            decision = "all requests are admitted" if decided == "admit" else "none are admitted"
            logger.error(text, self.name, decision, error)
        admits = decided == "admit"
        wait = 0.0 if admits else _RETRY
        return algorithms.LimitResult(admits, 0, wait, wait, counted=False)


def when_away() -> WhenAway:
    """Return ``COUNTERS_LIMITS_WHEN_AWAY``: the default decision without a store."""
    value: WhenAway = getattr(settings, "COUNTERS_LIMITS_WHEN_AWAY", "refuse")
    return value


def check_limits(**_: Any) -> list[CheckMessage]:
    """E035: ``COUNTERS_LIMITS_WHEN_AWAY`` has an unknown value."""
    value = when_away()
    text = f"COUNTERS_LIMITS_WHEN_AWAY must be 'refuse' or 'admit', not {value!r}."
    return [] if value in WHEN_AWAY else [message_of("E035", text)]


def are_in_redis() -> bool:
    """Return whether any limit of this process is in Redis."""
    return any(
        cache not in settings.CACHES or not addresses.is_other_cache(cache) for cache in _cached
    )


def store_of(cache: str | None, using: str | None, timeout: float) -> algorithms.LimitsStore:
    """Return the Redis of an alias of ``CACHES``, or the database for None and other caches.

    Raises:
        InvalidConfiguration: the cache doesn't exist, or can't count in one atomic step.
    """
    store = _in_redis(cache, timeout) if cache else None
    return store or _in_database(using or router.db_for_write(CounterLimit))


_in_database = cache_results(SqlLimits)


@cache_results
def _in_redis(cache: str, timeout: float) -> algorithms.LimitsStore | None:
    if addresses.is_other_cache(cache):
        return None
    with addresses.needs_redis("limits in Redis"):
        from django_counters.contrib.limits.redis import RedisLimits
    return RedisLimits(addresses.address_of(cache, {"timeout": timeout}))


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting == "CACHES":
        _in_redis.cache_clear()


def prune_limits(using: str = DEFAULT_DB_ALIAS) -> int:
    """Delete the rows of limits that are full again; return their number."""
    return SqlLimits(using).prune() if router.allow_migrate_model(using, CounterLimit) else 0
