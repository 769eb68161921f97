"""Buckets of rate limits in the database: each is one row, changed by one statement."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from django.db import Error

from django_counters.exceptions import CounterUnavailable, OutcomeUnknown, ReadOnlyDatabase
from django_counters.stores.base import Bucket
from django_counters.stores.sql.session import Session

_PAGE = 1000


class SqlLimits:
    """Takes from buckets, in the caller's transaction if there is one."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = self._session.dialect.limits

    def take(self, digest: bytes, cost: int, full: int) -> Bucket:
        """Take ``cost`` microseconds from a bucket of ``full``, if it has as much.

        Others who take from the same bucket are waited for; where the caller has a transaction,
        they wait until it ends.

        Raises:
            CounterUnavailable: the database is away or read-only, others held the row too long, or
                the answer was lost. Something may have been taken.
        """
        try:
            with self._apart():
                return self._take(digest, cost, full)
        except (OutcomeUnknown, ReadOnlyDatabase) as error:
            raise self._unavailable(error) from error
        except Error as error:
            if self._session.dialect.busy(error):
                raise self._unavailable(error) from error
            raise

    def prune(self) -> int:
        """Forget buckets that are full again; how many those were."""
        gone, last = 0, b""
        while rows := self._session.run(self._sql.prune, (last, _PAGE)):
            gone += len(rows)
            last = max(bytes(digest) for (digest,) in rows)
        return gone

    def _apart(self) -> AbstractContextManager[None]:
        """What keeps the caller's transaction usable after an error."""
        own = self._session.commits_at_once()
        return nullcontext() if own else self._session.all_or_nothing()

    def _take(self, digest: bytes, cost: int, full: int) -> Bucket:
        params = {"digest": digest, "cost": cost, "full": full}
        taken = self._session.run(self._sql.take, params)
        if taken:
            return Bucket(True, int(taken[0][0]))
        found = self._session.run(self._sql.ahead, (digest,), writes=False)
        # Where it is not there any more, it was full for a moment.
        return Bucket(False, int(found[0][0]) if found else 0)

    def _unavailable(self, error: Exception) -> CounterUnavailable:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        return CounterUnavailable(using=self._session.using, reason=reason)
