"""Whom a statement of MySQL waits for, and how long."""

from __future__ import annotations

#: After a table: rows that are named are found by their primary key. Of a small table the server
#: would read all rows, and hold or wait for each.
BY_KEY = "FORCE INDEX (PRIMARY)"


def at_most(seconds: int) -> str:
    """What stands before a statement that waits so long. For MySQL it is a comment."""
    return f"/*M! SET STATEMENT innodb_lock_wait_timeout = {seconds} FOR */ "
