"""The public API: how counters by key came about, and how they went."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo

from asgiref.sync import sync_to_async

from django_counters.managers.adjusting import AdjustingManager
from django_counters.managers.rows import Row
from django_counters.read import history, series
from django_counters.read.history import Explanation
from django_counters.read.points import Bucket
from django_counters.read.quotas import QuotaUsage, usage_of
from django_counters.read.series import Series
from django_counters.twins import twin
from django_counters.write.change import named


class PastManager(AdjustingManager[Row]):
    """Tells what was counted when."""

    def series(
        self,
        key: str | Iterable[str] | None = None,
        *,
        namespace: str | None = None,
        using: str | None = None,
    ) -> Series:
        """The counts over time and by tag, of a counter or of several of one namespace.

        The namespace declares ``PER``, is a ledger, or has a ``HISTORY``; the last two have no
        tags. Of all counters of a namespace that declares periods: ``namespace="views"``. See
        `Series`.

        Raises:
            InvalidKey: a key is none, or there is none; or both are given.
            UnsupportedSeries: the keys are of several namespaces; or that has no periods.
        """
        return series.series(key, using or self._db, namespace)

    def history(
        self,
        key: str,
        by: str = "hour",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tz: tzinfo | None = None,
        using: str | None = None,
    ) -> list[Bucket]:
        """How a counter changed, period by period; periods in which nothing was counted are zero.

        A shorthand of `series`: of its periods where the namespace declares ``PER``, else of its
        entries or of its recorded totals.
        ``by`` is a minute, hour, day, week or month, as the clocks of ``tz`` show them, so a day
        may have 23 or 25 hours. Where it is not given, periods begin as they are stored. Those of a
        ledger begin as in the current time zone. The first period is the one that ``since`` falls
        into, the last one begins before ``until`` (now). Entries stand at the time of their token.

        Raises:
            UnsupportedSeries: nothing tells when the counter changed; it says which option does.
            HistoryNotKept: that time is not known; it says from when on it is.
            InvalidPeriod: no such period, more than 10,000 of them, or the stored ones begin
                elsewhere.
        """
        return series.history(key, by, since, until, tz, using or self._db)

    def value_at(self, key: str, moment: datetime, *, using: str | None = None) -> int:
        """The value that a counter of the ledger had at a moment.

        It is what the value is now, without the entries whose token is later than the moment. What
        did not come through the ledger counts as if it had always been there.

        Raises:
            UnsupportedHistory: the namespace is no ledger, and the counter has no entry.
            HistoryNotKept: entries since then are dropped.
        """
        return history.value_at(key, moment, using or self._db)

    def quotas(self, key: str, *, using: str | None = None) -> tuple[QuotaUsage, ...]:
        """How much of each quota of a counter is used in the present period, the shortest first.

        The namespace declares them: ``"CEILING": {"month": 10_000}``; none, where it does not. One
        statement. It is for people to look at: who counts is refused with `QuotaExceeded`.

        Raises:
            InvalidKey: it is no key.
            CounterUnavailable: the database is away.
        """
        return usage_of(named(key, using or self._db))

    def explain(  # type: ignore[override]
        self, key: str, *, last: int = 10, using: str | None = None
    ) -> Explanation:
        """The parts of a value, which sum to it, and the last entries, in one statement.

        Django's own ``explain()``, of a query, is that of a queryset: ``objects.all().explain()``.
        """
        return history.explain(key, last, using or self._db)

    ahistory = twin(history)
    avalue_at = twin(value_at)
    aquotas = twin(quotas)

    async def aexplain(  # type: ignore[override]
        self, key: str, *, last: int = 10, using: str | None = None
    ) -> Explanation:
        """`explain` for async code."""
        return await sync_to_async(self.explain)(key, last=last, using=using)
