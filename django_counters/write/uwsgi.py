"""What uWSGI does otherwise: it forks without telling Python, and may run no threads."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("django_counters")


def lets_wait() -> bool:
    """Whether something may wait in this process, for a thread or for its end.

    Not where there are no threads. And not in the process that uWSGI forks workers from: each of
    them would have a copy of it, and that process ends without what is registered for its end.
    """
    # There within uWSGI alone, and not to be had by others.
    server: Any = sys.modules.get("uwsgi")
    if server is None:
        return True
    if not {"enable-threads", "threads"} & set(map(_text, server.opt)):
        logger.warning("Counters: no buffer in uWSGI without --enable-threads: all counts at once.")
        return False
    return bool(server.worker_id())


def call_in_workers(call: Callable[[], object]) -> None:
    """Call a function in each worker when it begins.

    Where another process takes the hook away, nothing waits there: see `lets_wait`.
    """
    server: Any = sys.modules.get("uwsgi")
    if server is None:
        return
    before = getattr(server, "post_fork_hook", None)

    def begin() -> None:
        call()
        if before is not None:
            before()

    server.post_fork_hook = begin


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode()
