"""What a server of MySQL, or a connection to it, must be like for the promises to hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import Error

#: What the statements need: SKIP LOCKED, JSON_TABLE and collations that compare bytes.
OLDEST_MYSQL, OLDEST_MARIADB = (8, 0, 19), (10, 6)
REDUCED = (
    "TRUNCATE, and whoever may drop triggers, passes the guard of adjustments.",
    "A shard belongs to a connection: two connections may have one, and wait for each other.",
    "Where a transaction makes the total of a batch, and is rolled back while several wait to make "
    "the same, these end in a deadlock; on MySQL so does any new total or shard.",
    "A read beside a rollup may miss for a moment what is just rolled up, on a server under load.",
    "Landings and adjustments, and on MySQL rollups, wait for what others hold as long as "
    "innodb_lock_wait_timeout says.",
)


def unfit(connection: Any) -> Iterator[str]:
    """What keeps counters from being right on a connection, as sentences."""
    connection.ensure_connection()
    version = tuple(connection.mysql_version)
    oldest = OLDEST_MARIADB if connection.mysql_is_mariadb else OLDEST_MYSQL
    if version < oldest:
        yield f"Counters need version {_dotted(oldest)} or newer; this is {_dotted(version)}."
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@sql_mode, @@default_storage_engine, @@innodb_rollback_on_timeout")
        modes, engine, takes_back = cursor.fetchone()
        # Its name depends on the server.
        cursor.execute(
            "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')"
        )
        levels = {level for _, level in cursor.fetchall()}
    if levels != {"READ-COMMITTED"}:
        yield (
            "Counters need isolation_level 'read committed' in OPTIONS; "
            f"this is {', '.join(sorted(levels))}."
        )
    if not {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & set(modes.split(",")):
        yield "Counters need STRICT_TRANS_TABLES in sql_mode: what does not fit would be cut off."
    if engine != "InnoDB":
        yield f"Counters need tables of InnoDB; new ones are of {engine}."
    if takes_back:
        yield (
            "Counters need innodb_rollback_on_timeout off: a lock that is not given in time would "
            "take back what came before it."
        )
    if not _takes_several(connection):
        yield "Counters need a driver that sends several statements in one text."


def _takes_several(connection: Any) -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1; SELECT 2")
            return bool(cursor.nextset())
    except Error:
        return False


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
