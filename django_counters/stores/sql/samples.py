"""Recorded totals: written in one statement, and forgotten in small ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connections

from django_counters import clock
from django_counters.stores.sql.session import Session

_PAGE = 1000


class Scope(NamedTuple):
    """Some of the named counters: keys from ``low`` on and before ``high``.

    ``others``: namespaces that are not among them.
    """

    low: str
    high: str
    others: Sequence[str] = ()


class SqlSamples:
    """Records totals of named counters, period by period. Holds no connection and no number."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = self._session.dialect.samples

    def take(self, scope: Scope, moment: datetime) -> int:
        """Write the totals that differ from what was recorded last; how many those were.

        ``moment`` is the beginning of the present period. One statement, so that all of a scope
        are of one moment. Others who do the same at once are waited for.
        """
        # Where transactions keep one snapshot, what another transaction has just recorded is an
        # error.
        with self._session.read_committed():
            return len(self._session.run(self._sql.take, self._asked(scope, moment)))

    def forget(self, scope: Scope, before: datetime, *, last: bool) -> int:
        """Delete what was recorded of periods before a moment; how many those were.

        ``last``: also the last of each counter, which says what it had at that moment.
        """
        gone, sql = 0, self._sql.forget if last else self._sql.forget_but_last
        params = {**self._asked(scope, before), "limit": _PAGE}
        while rows := len(self._session.run(sql, params)):
            gone += rows
        return gone

    def _asked(self, scope: Scope, moment: datetime) -> dict[str, Any]:
        connection = connections[self._session.using]
        return {
            "low": scope.low,
            "high": scope.high,
            "others": self._session.dialect.keys(scope.others),
            "moment": connection.ops.adapt_datetimefield_value(clock.shown(moment)),
        }
