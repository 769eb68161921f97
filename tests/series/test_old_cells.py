"""Pruning finds old rows by an index, in a table that keeps most of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import connection

from django_counters.contrib.series.models import CounterCell, CounterOccurrence
from django_counters.contrib.series.sql import SqlPeriods
from django_counters.contrib.uniques import CounterUnique

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db]
START = datetime(2024, 1, 1, tzinfo=UTC)
COUNTERS, DAYS = 200, 250
HOUR, DAY = 2, 3
# Each counter has a row per day and one for the first hour of each day.
FILLED = (
    "INSERT INTO {} (measure_id, key, period, start, tags, {}) "
    "SELECT 1, 'hits:' || k, p, %s + d * INTERVAL '1 day', '', {} "
    "FROM generate_series(0, {} - 1) d, generate_series(1, {}) k, unnest(ARRAY[{}, {}]) p"
)


@pytest.mark.parametrize(
    ("model", "columns", "values"),
    [
        (CounterCell, "shard, value", "0, 1"),
        (CounterOccurrence, "shard, value", "0, 1"),
        (CounterUnique, "kind, body", "'d', ''"),
    ],
)
def test_it_reads_few_pages_beside_the_rows_that_it_deletes(
    model: type[CounterCell | CounterOccurrence | CounterUnique], columns: str, values: str
) -> None:
    table = model._meta.db_table
    with connection.cursor() as cursor:
        filled = FILLED.format(table, columns, values, DAYS, COUNTERS, HOUR, DAY)
        cursor.execute(filled, [START])
        cursor.execute(f"ANALYZE {table}")
        cursor.execute("SELECT relpages FROM pg_class WHERE relname = %s", [table])
        (pages,) = cursor.fetchone()
        sql = SqlPeriods("default").forgetting(model)
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", [1, HOUR, START, 1000])
        ((((plan,),)),) = cursor.fetchall()
    top = plan["Plan"]
    assert pages > 100
    assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 10
    later = START.replace(day=2)
    assert SqlPeriods("default").forget(model, 1, HOUR, later) == COUNTERS
    left = (DAYS - 1) * COUNTERS
    rows = model._base_manager
    assert [rows.filter(period=period).count() for period in (HOUR, DAY)] == [left, left + COUNTERS]
