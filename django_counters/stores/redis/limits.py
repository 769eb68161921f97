"""Buckets of rate limits in Redis: one key each, which one script changes."""

from __future__ import annotations

from django_counters.exceptions import CounterUnavailable, OutcomeUnknown
from django_counters.stores.base import Bucket
from django_counters.stores.redis.addresses import Address
from django_counters.stores.redis.client import client_of
from django_counters.stores.redis.commands import Command, Refused
from django_counters.stores.redis.keys import bucket
from django_counters.stores.redis.scripts import TAKE


class RedisLimits:
    """Takes from buckets. Redis forgets a bucket when it is full again."""

    def __init__(self, address: Address) -> None:
        self._client = client_of(address)
        self._prefix = address.prefix

    def take(self, digest: bytes, cost: int, full: int) -> Bucket:
        """Take ``cost`` microseconds from a bucket of ``full``, if it has as much.

        Raises:
            CounterUnavailable: Redis is away or refuses, or the answer was lost. Something may have
                been taken.
        """
        command = Command(TAKE, (bucket(digest, self._prefix),), (cost, full))
        try:
            admitted, ahead = self._client.run(command)
        except (Refused, OutcomeUnknown) as error:
            lost = isinstance(error, OutcomeUnknown)
            reason = "the answer was lost" if lost else str(error).rstrip(".")
            raise CounterUnavailable(using=self._client.using, reason=reason) from error
        return Bucket(admitted == 1, ahead)
