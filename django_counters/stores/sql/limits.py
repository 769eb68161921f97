"""Rate limits in the database: for each one of whom is limited a row, changed by one statement."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from asgiref.sync import sync_to_async
from django.db import Error

from django_counters.exceptions import CounterUnavailable, OutcomeUnknown, ReadOnlyDatabase
from django_counters.stores.base import Draw, Drawn
from django_counters.stores.sql.session import Session

_PAGE = 1000


class SqlLimits:
    """Takes from buckets and logs, in the caller's transaction if there is one."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = self._session.dialect.limits

    def take(self, draw: Draw) -> Drawn:
        """Take, if there is enough.

        Others who take from the same row are waited for; where the caller has a transaction, they
        wait until it ends.

        Raises:
            CounterUnavailable: the database is away or read-only, others held the row too long, or
                the answer was lost. Something may have been taken.
        """
        try:
            with self._apart():
                return self._take(draw)
        except (OutcomeUnknown, ReadOnlyDatabase) as error:
            raise self._unavailable(error) from error
        except Error as error:
            if self._session.dialect.busy(error):
                raise self._unavailable(error) from error
            raise

    async def atake(self, draw: Draw) -> Drawn:
        """`take` in a thread, as the rest of Django's async ORM."""
        return await sync_to_async(self.take)(draw)

    def prune(self) -> int:
        """Forget what nothing is taken from any more; how many rows those were."""
        gone, last = 0, b""
        while rows := self._session.run(self._sql.prune, (last, _PAGE)):
            gone += len(rows)
            last = max(bytes(digest) for (digest,) in rows)
        return gone

    def _apart(self) -> AbstractContextManager[None]:
        """What keeps the caller's transaction usable after an error."""
        own = self._session.commits_at_once()
        return nullcontext() if own else self._session.all_or_nothing()

    def _take(self, draw: Draw) -> Drawn:
        sql, params = self._sql, draw._asdict()
        logged = params.pop("logged")
        taken = self._session.run(sql.take_logged if logged else sql.take, params)
        if taken:
            return Drawn(True, *map(int, taken[0]))
        found = self._session.run(sql.look_logged if logged else sql.look, params, writes=False)
        # Where it is not there any more, there was enough for a moment.
        return Drawn(False, *map(int, found[0])) if found else Drawn(False, 0, 0, 0)

    def _unavailable(self, error: Exception) -> CounterUnavailable:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        return CounterUnavailable(using=self._session.using, reason=reason)
