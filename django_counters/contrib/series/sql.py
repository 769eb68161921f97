"""Statements of periods and of recorded totals, and the function of PostgreSQL for quotas."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from django.db import connections

from django_counters import clock
from django_counters.contrib.series.models import OfPeriod
from django_counters.contrib.series.options import SUM, period_cell, period_columns, period_in
from django_counters.effects import kinds
from django_counters.errors import InvalidConfiguration
from django_counters.measure import SHARD, Kind
from django_counters.registry import registry
from django_counters.stores.sql.cells import CellPart, SqlCells
from django_counters.stores.sql.dialects.postgresql.cells import GUARD_REFUSED
from django_counters.stores.sql.dialects.postgresql.functions import INDEXED
from django_counters.stores.sql.dialects.spelling import COUNTER, Spelling
from django_counters.stores.sql.session import Session, aware
from django_counters.types import Amounts, Cell

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


# Periods with a number each: rows of a parameter, which no table has.
_NUMBERED = Kind("numbered", "", "", period_columns("mpskd"), order=0)
_OLD = "WHERE measure_id = %s AND period = %s AND start < %s LIMIT %s"


class SqlPeriods:
    """Reads and deletes the rows of periods. Holds no connection and no number."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = self._session.dialect.cells
        self._shown = SqlCells(self._session).shown
        self._used = (
            f"SELECT u.d, SUM(c.value) FROM {self._sql.given(_NUMBERED)} JOIN {SUM.table} c "
            "ON c.measure_id = u.m AND c.key = u.k AND c.period = u.p AND c.start = u.s "
            "GROUP BY u.d"
        )

    def used(self, parts: Sequence[tuple[Hashable, Cell]]) -> list[int]:
        """Return what each period of a counter has counted, over all tags and shards.

        One statement, for periods of sums.
        """
        shown = self._shown()
        rows = [
            (*map(shown, period_in(cell)[:3]), str(key), number)
            for number, (key, cell) in enumerate(parts)
        ]
        params = self._sql.arrange(_NUMBERED, rows)
        found = self._session.run(self._used, params, writes=False)
        sums = {number: int(value) for number, value in found}
        return [sums.get(number, 0) for number in range(len(rows))]

    def counted(
        self, value: str, params: Sequence[Any], measure: int, key: str
    ) -> tuple[Amounts, Mapping[Kind, Sequence[CellPart]]]:
        """Return the value of one counter and the numbers of its periods, of one moment.

        ``value`` is the statement that reads its total and its pending amount.
        """
        known = [k for k in kinds() if SHARD in k.columns and k.own == SUM.own]
        texts = [
            f"SELECT {number}, c.period, c.start, c.tags, c.value, c.shard FROM {kind.table} c "
            "WHERE c.measure_id = %s AND c.key = %s"
            for number, kind in enumerate(known)
        ]
        sql = " UNION ALL ".join((f"SELECT -1, NULL, NULL, NULL, v.* FROM ({value}) v", *texts))
        amounts = Amounts(None, 0)
        parts: dict[Kind, list[CellPart]] = {kind: [] for kind in known}
        rows = self._session.run(sql, (*params, *(measure, key) * len(known)), writes=False)
        for number, period, start, tags, by, last in rows:
            if number < 0:
                amounts = Amounts(None if by is None else int(by), int(last or 0))
            else:
                kind, moment = known[number], aware(start, local=True).astimezone(UTC)
                cell = period_cell(kind, measure, int(period), moment, str(tags))
                parts[kind].append(CellPart(cell, int(last), int(by)))
        return amounts, parts

    def forgetting(self, table: type[OfPeriod]) -> str:
        """Delete some rows. Parameters: measure, period, before which start, how many."""
        named = {column.name: column for column in period_columns("mkpstwn")}
        columns = [named[field.attname] for field in table._meta.pk_fields]
        return self._sql.delete_some(table._meta.db_table, columns, _OLD)

    def forget(self, table: type[OfPeriod], measure: int, period: int, before: datetime) -> int:
        """Delete a period's rows before a moment, in small batches. Return their number."""
        sql, gone = self.forgetting(table), 0
        params = (measure, period, self._shown()(before), _PAGE)
        while rows := len(self._session.run(sql, params)):
            gone += rows
        return gone


def used(parts: Sequence[tuple[Hashable, Cell]], using: str) -> list[int]:
    """Return what each period of a counter has counted; see `SqlPeriods.used`."""
    return registry.kept(SqlPeriods, using).used(parts)


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
