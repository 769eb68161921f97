"""How long a statement of MariaDB waits for what others hold."""

from __future__ import annotations


def at_most(seconds: int) -> str:
    """What stands before a statement that waits so long. For MySQL it is a comment."""
    return f"/*M! SET STATEMENT innodb_lock_wait_timeout = {seconds} FOR */ "
