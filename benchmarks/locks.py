"""``python3 -m benchmarks.locks [PARTITIONS]``: the locks and the time of each read of the ledger.

All partitions but the last ones are sealed. Each call is made alone, and in a transaction, which
keeps its locks until it ends.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django_counters.contrib import series

HEAD = ("Call", "Locks, called alone", "Locks, in a transaction", "ms, at best")
# Of each sealed day: entries of the counter that is read, and other counters with one each.
HOT, OTHERS = 200, 200
TIMES = 21
HELD = "SELECT COUNT(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'"
INSERT = (
    "INSERT INTO django_counters_counterdelta (token, created_at, key, delta) "
    "SELECT token, created_at, key, 1 FROM unnest(%s::uuid[], %s::timestamptz[], %s::text[]) "
    "AS u (token, created_at, key)"
)


def main(arguments: list[str]) -> int:
    """Print a table of the calls."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    from benchmarks import database, machine
    from example_project.bootstrap.services import services

    number = int(arguments[0]) if arguments else 110
    with services(durable=False) as urls, database.scratch(urls.database):
        for line in machine.lines(machine.present()):
            print(line)
        sealed = _fill(number)
        load = os.getloadavg()[0]
        print(
            f"{datetime.now(UTC).date()}, {number} partitions, {sealed} of them sealed, "
            f"Python {platform.python_version()}, load {load:.1f}\n"
        )
        for row in (HEAD, ("---",) * len(HEAD)):
            print(f"| {' | '.join(row)} |")
        for name, call in _calls().items():
            print(f"| {name} | {_most(call)} | {_together(call)} | {_milliseconds(call):.2f} |")
    return 0


def _fill(number: int) -> int:
    """Make partitions and their entries, and seal them; how many are sealed."""
    from django.db import connection

    from benchmarks import database
    from benchmarks.inspection import let_others_end
    from django_counters.ledger.partitions import SqlPartitions
    from django_counters.ledger.upkeep import maintain
    from django_counters.models import CounterDelta
    from django_counters.tokens import mint, moment_of
    from django_counters.upkeep import rollup

    store, day = SqlPartitions("default"), timedelta(days=1)
    keys = ["orders:hot"] * HOT + [f"orders:{number}" for number in range(OTHERS)]
    CounterDelta.objects.append_many([(key, 1) for key in (*keys, "orders:rare")])
    first, present = store.present()[0].since, len(store.present())
    for back in range(number - present, 0, -1):
        store.create(first - back * day, first - (back - 1) * day)
        with connection.cursor() as cursor:
            tokens = [mint(first - back * day + timedelta(minutes=n)) for n in range(len(keys))]
            cursor.execute(INSERT, [tokens, [moment_of(token) for token in tokens], keys])
    let_others_end()
    rollup()
    maintain()
    CounterDelta.objects.append("orders:hot", 1)
    database.settle()
    return len(store.sealed())


def _calls() -> dict[str, Callable[[], object]]:
    from django_counters import clock
    from django_counters.ledger.horizon import SqlHorizon
    from django_counters.metrics.doctor import examine
    from django_counters.models import Counter, CounterDelta
    from django_counters.tokens import mint
    from django_counters.upkeep import verify

    counters, entries, now = Counter.objects, CounterDelta.objects, clock.utc()
    token, end = mint(now), entries.end()
    begun = entries.since(most=20_000).position

    def past(by: str, days: int, zone: str = "UTC") -> object:
        since, tz = now - timedelta(days=days), ZoneInfo(zone)
        return series.history("orders:hot", by, since=since, tz=tz)

    return {
        "`value()`": lambda: counters.value("orders:hot"),
        "`increment()`": lambda: counters.increment("orders:hot"),
        "`increment(token=…)`, a replay": lambda: counters.increment("orders:hot", token=token),
        "`value_at()`, a day ago": lambda: counters.value_at("orders:hot", now - timedelta(days=1)),
        "`value_at()`, 90 days ago": lambda: counters.value_at(
            "orders:hot", now - timedelta(days=90)
        ),
        "`history('day')`, 7 days": lambda: past("day", 7),
        "`history('day')`, 90 days": lambda: past("day", 90),
        "`history('day')`, 90 days of another time zone": lambda: past("day", 90, "Asia/Tokyo"),
        "`history('hour')`, 90 days": lambda: past("hour", 90),
        "`explain()`": lambda: counters.explain("orders:hot"),
        "`explain()`, a counter with few entries": lambda: counters.explain("orders:rare"),
        "`since()`, the first page": lambda: entries.since(most=100),
        "`since()`, a page in the middle": lambda: entries.since(begun, most=100),
        "`since()`, nothing new": lambda: entries.since(end, most=100),
        "`counters upkeep rollup`": lambda: SqlHorizon("default").fold(),
        "`counters doctor`": lambda: examine("default"),
        "`counters verify --sample 100`": lambda: verify(sample=100),
        "`counters verify`": verify,
    }


def _together(call: Callable[[], object]) -> int:
    from django.db import transaction

    from benchmarks.inspection import execute

    with transaction.atomic():
        call()
        return execute(HELD)


def _most(call: Callable[[], object]) -> int:
    """The most that a call holds at once: statements of their own let go of theirs at once."""
    from django.db import connection, transaction

    from benchmarks.inspection import execute

    most = [0]

    def count(run: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql == HELD:
            return run(sql, params, many, context)
        with transaction.atomic(savepoint=False):
            result = run(sql, params, many, context)
            most[0] = max(most[0], execute(HELD))
        return result

    with connection.execute_wrapper(count):
        call()
    return most[0]


def _milliseconds(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return min(taken) * 1000


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
