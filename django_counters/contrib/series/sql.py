"""Statements of recorded totals, and the function of PostgreSQL that looks at quotas."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from django.db import connections

from django_counters import clock
from django_counters.contrib.series.options import SUM
from django_counters.errors import InvalidConfiguration
from django_counters.stores.sql.dialects.postgresql.cells import GUARD_REFUSED
from django_counters.stores.sql.dialects.postgresql.functions import INDEXED
from django_counters.stores.sql.dialects.spelling import COUNTER, Spelling
from django_counters.stores.sql.session import Session

# The quotas of a change, last of all: an error if a period has too much. The caller
# holds the total, and each statement here sees what was committed before it.
WITHIN = f"""
CREATE OR REPLACE FUNCTION django_counters_within(
  v anyelement, m int, ps smallint[], ss timestamptz[], most bigint[], k text)
RETURNS anyelement {INDEXED} AS $body$
DECLARE sums numeric[];
BEGIN
  IF v IS NULL THEN
    RETURN v;
  END IF;
  FOR i IN 1 .. array_length(ps, 1) LOOP
    sums[i] := (SELECT SUM(c.value) FROM {SUM.table} c
      WHERE c.measure_id = m AND c.key = k AND c.period = ps[i] AND c.start = ss[i]);
  END LOOP;
  FOR i IN 1 .. array_length(ps, 1) LOOP
    IF sums[i] > most[i] THEN
      RAISE SQLSTATE '{GUARD_REFUSED}'
        USING MESSAGE = 'quota exceeded: ' || k, DETAIL = array_to_string(sums, ',');
    END IF;
  END LOOP;
  RETURN v;
END $body$
"""

SAMPLES = "django_counters_countersample"
_PAGE = 1000


class SampleStatements:
    """The statements of recorded totals. Their parameters begin with those of a scope."""

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling

    @cached_property
    def record(self) -> str:
        """Record totals that differ from the last recorded ones, in the order of their keys.

        In one statement, so that all totals are of one moment. It sorts by an expression without an
        index, so that all rows are read before the first is written. Otherwise the plan for a small
        table would read the growing table again and again. Parameters: the scope and ``moment`` by
        name. A row for each.
        """
        moment = self._in.typed("%(moment)s", "timestamptz")
        last = (
            f"SELECT l.value FROM {SAMPLES} l WHERE l.key = c.key AND l.moment <= {moment} "
            "ORDER BY l.moment DESC LIMIT 1"
        )
        due = (
            f"SELECT c.key, c.value FROM {COUNTER} c "
            f"WHERE {self._within('c.key')} AND COALESCE(c.value <> ({last}), true)"
        )
        return (
            f"WITH due AS MATERIALIZED ({due}) INSERT INTO {SAMPLES} (key, moment, value) "
            f"SELECT key, {moment}, value FROM due WHERE true ORDER BY key || '' "
            "ON CONFLICT (key, moment) DO UPDATE SET value = EXCLUDED.value RETURNING 1"
        )

    @cached_property
    def forget(self) -> str:
        """Delete some rows before a moment. Parameters: those of ``record``, and ``limit``."""
        return self._in.delete_some(
            SAMPLES,
            f"WHERE moment < %(moment)s AND {self._within(f'{SAMPLES}.key')} "
            "ORDER BY moment LIMIT %(limit)s",
        )

    @cached_property
    def forget_but_last(self) -> str:
        """Delete the same rows, except the last of each counter before that moment."""
        later = (
            f"SELECT 1 FROM {SAMPLES} n WHERE n.key = {SAMPLES}.key "
            f"AND n.moment > {SAMPLES}.moment AND n.moment < %(moment)s"
        )
        return self._in.delete_some(
            SAMPLES,
            f"WHERE moment < %(moment)s AND {self._within(f'{SAMPLES}.key')} AND EXISTS ({later}) "
            "ORDER BY moment LIMIT %(limit)s",
        )

    def _within(self, key: str) -> str:
        """Return the condition that a key is within a scope."""
        other = f"{self._in.namespace(key)} {self._in.among('text', '%(others)s')}"
        # With an empty list, some databases return NULL.
        return f"{key} >= %(low)s AND {key} < %(high)s AND NOT COALESCE({other}, false)"


class Scope(NamedTuple):
    """Named counters with keys from ``low`` on and before ``high``, except some namespaces."""

    low: str
    high: str
    others: Sequence[str] = ()


class SqlSamples:
    """Records totals of named counters, period by period.

    Raises:
        InvalidConfiguration: the database doesn't offer it.
    """

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        dialect = self._session.dialect
        if "history" in dialect.lacks:
            raise InvalidConfiguration(problem=dialect.lacks["history"])
        self._sql = SampleStatements(dialect)

    def record(self, scope: Scope, moment: datetime) -> int:
        """Write the totals that differ from the last recorded ones. Return how many.

        In one statement, so that all totals of a scope are of one moment. Waits for concurrent
        calls.

        Args:
            scope: the counters.
            moment: when the present period began.
        """
        # In a snapshot, a row that another transaction has just recorded is an error.
        with self._session.read_committed():
            return len(self._session.run(self._sql.record, self._parameters(scope, moment)))

    def forget(self, scope: Scope, before: datetime, *, last: bool) -> int:
        """Delete recorded totals of periods before a moment. Return how many.

        Args:
            scope: the counters.
            before: the moment.
            last: also the last one of each counter, which is its total at that moment.
        """
        gone, sql = 0, self._sql.forget if last else self._sql.forget_but_last
        params = {**self._parameters(scope, before), "limit": _PAGE}
        while rows := len(self._session.run(sql, params)):
            gone += rows
        return gone

    def _parameters(self, scope: Scope, moment: datetime) -> dict[str, Any]:
        connection = connections[self._session.using]
        return {
            "low": scope.low,
            "high": scope.high,
            "others": self._session.dialect.keys(scope.others),
            "moment": connection.ops.adapt_datetimefield_value(clock.shown(moment)),
        }
