"""``--depends-on``: which tests run again where something under them is another one.

All tests run on the oldest pair of Python and Django, on the newest PostgreSQL. What could differ
elsewhere runs there, too, and nothing else does. Before a release, ``.ci/run --all`` runs all that
depends on the dialect on MariaDB. The table in CONTRIBUTING.md is this one.
"""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

TESTS = Path(__file__).parent


class Run(NamedTuple):
    """Where else tests run: the heading in the table, and what they depend on."""

    heading: str
    what: str


RUNS = {
    "dialect": Run("SQLite", "the SQL that is written for each database"),
    "mariadb": Run("MariaDB", "the SQL that MySQL writes in its own way, and its locks"),
    "server": Run("PostgreSQL 15, Redis 7", "locks, plans, functions and scripts of the server"),
    "pair": Run("each pair", "what Python and Django do for us"),
    "newest": Run("newest pair", "the same, and what is built on it"),
}


class Row(NamedTuple):
    """A folder or file of tests: the runs that take it in besides the first, and why."""

    runs: tuple[str, ...]
    why: str


NOWHERE: tuple[str, ...] = ()
EVERYWHERE = tuple(RUNS)
SQL = ("dialect", "mariadb", "server", "newest")
TABLE = {
    ".": Row(EVERYWHERE, "a model of calls, migrations, settings, types"),
    "adjustments": Row(SQL, "corrections, down to their SQL"),
    "admin": Row(("pair", "newest"), "forms, lists and templates are Django's"),
    "benchmarks": Row(NOWHERE, "figures are taken on one machine"),
    "benchmarks/test_mysql.py": Row(("mariadb",), "statements of MySQL"),
    "bootstrap": Row(NOWHERE, "starts servers of its own"),
    "browser": Row(NOWHERE, "one browser, one site"),
    "browser/test_axe.py": Row(("pair", "newest"), "pages of the admin are in Django's"),
    "buffers": Row(("dialect", "server", "newest"), "pages of merged changes, landed in SQL"),
    "buffers/test_directories.py": Row(("newest",), "files and threads are Python's"),
    "buffers/test_interrupts.py": Row(("newest",), "files and threads are Python's"),
    "buffers/test_threads.py": Row(("newest",), "files and threads are Python's"),
    "cached": Row(SQL, "what waits in Redis and lands, down to its SQL"),
    "cached/scripts": Row(("server", "newest"), "scripts are the server's"),
    "cached/test_away.py": Row(("newest",), "sockets are Python's"),
    "concurrency": Row(("server",), "locks and snapshots are the server's"),
    "concurrency/test_flash_sale.py": Row(("mariadb", "server"), "locks of InnoDB, too"),
    "concurrency/test_ledger.py": Row(("mariadb", "server"), "locks of InnoDB, too"),
    "concurrency/test_mysql.py": Row(("mariadb", "server"), "locks of InnoDB, too"),
    "concurrency/test_rights.py": Row(("mariadb", "server"), "locks of InnoDB, too"),
    "concurrency/test_spread.py": Row(("mariadb", "server"), "locks of InnoDB, too"),
    "concurrency/test_tokens.py": Row(("mariadb", "server"), "locks of InnoDB, too"),
    "docs": Row(NOWHERE, "the pages are the same everywhere"),
    "docs/test_walks.py": Row(("mariadb",), "statements of MySQL"),
    "example": Row(NOWHERE, "a site on what the other rows prove"),
    "extension": Row(("dialect", "pair", "newest"), "what an app adds, down to Django's apps"),
    "extension/test_streaks.py": Row(
        ("dialect", "mariadb", "pair", "newest"), "rows of an app, down to their SQL"
    ),
    "extension/test_weekdays.py": Row(
        ("dialect", "mariadb", "pair", "newest"), "rows without periods, down to their SQL"
    ),
    "faults": Row(NOWHERE, "a step of its own: kills its own servers"),
    "fields": Row(("dialect", "pair", "newest"), "model fields are Django's"),
    "holds": Row(SQL, "what is held and sold, down to its SQL"),
    "landing": Row(("dialect", "server"), "parcels, landed in SQL"),
    "ledger": Row(SQL, "entries and their partitions, down to their SQL"),
    "likes": Row(("dialect", "server", "newest"), "rows that count once, down to their SQL"),
    "limits": Row(("dialect", "server", "newest"), "buckets and room, in SQL and in scripts"),
    "locales": Row(NOWHERE, "texts"),
    "management": Row(("pair", "newest"), "commands are Django's and argparse's"),
    "metrics": Row(("dialect", "server", "newest"), "facts read in SQL, and prometheus_client"),
    "metrics/test_panel.py": Row(("pair", "newest"), "the panels of the toolbar are Django's"),
    "mutants": Row(NOWHERE, "a step of its own"),
    "protocol": Row(NOWHERE, "a model: pure Python"),
    "read": Row(SQL, "values and history, down to their SQL"),
    "redis": Row(("server", "newest"), "sockets are Python's, clusters the server's"),
    "regions": Row(EVERYWHERE, "what regions ask, down to SQL and sockets"),
    "rest": Row(("newest",), "views and serializers of Django REST framework"),
    "rest/test_admission.py": Row(("dialect", "newest"), "makes rows within savepoints"),
    "rest/test_idempotency.py": Row(("dialect", "newest"), "keys are claimed in SQL"),
    "rest/test_idempotency_dying.py": Row(("dialect", "newest"), "keys are claimed in SQL"),
    "series": Row(SQL, "history and charts, down to their SQL"),
    "series/test_calendar.py": Row(("pair", "newest"), "time zones are Python's"),
    "stores": Row(EVERYWHERE, "SQL, and the driver under it"),
    "strategies": Row(SQL, "each strategy, down to its SQL"),
    "streams": Row(("dialect", "server"), "messages of streams, landed in SQL"),
    "streams/test_consume_kafka_command.py": Row(NOWHERE, "as streams/test_lag_of_topics.py"),
    "streams/test_kafka_away.py": Row(NOWHERE, "as streams/test_lag_of_topics.py"),
    "streams/test_kafka_exactly_once.py": Row(NOWHERE, "as streams/test_lag_of_topics.py"),
    "streams/test_kafka_stream.py": Row(NOWHERE, "as streams/test_lag_of_topics.py"),
    "streams/test_lag_of_topics.py": Row(NOWHERE, "asks Kafka; the SQL is that of Redis streams"),
    "streams/test_publishing_to_kafka.py": Row(NOWHERE, "as streams/test_lag_of_topics.py"),
    "tenants": Row(("server",), "schemas, and what a process remembers of each"),
    "test_adjustment_model.py": Row(SQL, "as adjustments"),
    "test_architecture.py": Row(NOWHERE, "reads the sources"),
    "test_selection.py": Row(NOWHERE, "reads this table"),
    "test_spread_model.py": Row(SQL, "as strategies"),
    "test_unstable.py": Row(NOWHERE, "how pytest runs them"),
    "together": Row(SQL, "what several capabilities do at once, down to its SQL"),
    "top": Row(SQL, "ranks, down to their SQL"),
    "uniques": Row(SQL, "sets of actors, down to their SQL"),
    "upkeep": Row(
        ("dialect", "mariadb", "server"), "partitions, triggers, rollups and flushes in SQL"
    ),
    "workers": Row(NOWHERE, "Celery and web servers; slow to start"),
    "write": Row(("dialect", "server", "newest"), "changes of each kind, down to their SQL"),
}


def row_of(path: Path) -> str:
    """The most precise row of a file or folder in ``tests``."""
    within = path.relative_to(TESTS).as_posix()
    rows = [row for row in TABLE if within == row or within.startswith(f"{row}/")]
    return max(rows, key=len, default=".")


def is_left_out(path: Path, run: str) -> bool:
    """Whether nothing in there depends on what is another one in ``run``."""
    if not path.is_relative_to(TESTS):
        return False
    within = path.relative_to(TESTS).as_posix()
    rows = {row_of(path), *(row for row in TABLE if row.startswith(f"{within}/"))}
    return path != TESTS and not any(run in TABLE[row].runs for row in rows)


def is_drawn(test: str, one_in: int) -> bool:
    """Return whether it is a test's turn: once in ``one_in`` days, counted by ``COUNTERS_DAY``."""
    day = date.fromisoformat(os.environ.get("COUNTERS_DAY") or "2026-01-01").toordinal()
    return (crc32(test.encode()) + day) % one_in == 0


def table() -> str:
    """The table of CONTRIBUTING.md."""
    headings = ["Tests", *(run.heading for run in RUNS.values()), "Why"]
    lines = [headings, ["---"] * len(headings)]
    for name, row in TABLE.items():
        marks = ["yes" if run in row.runs else "" for run in RUNS]
        shown = "`test_*.py`" if name == "." else f"`{name}`"
        lines.append([shown, *marks, row.why])
    return "\n".join(" ".join(f"| {' | '.join(cells)} |".split()) for cells in lines)
