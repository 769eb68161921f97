"""The thread of a process that lands the files of ended processes, and its messages."""

from __future__ import annotations

import logging
import threading
import time
from random import SystemRandom

from django.db import connections

from django_counters.write.adopting import adopt
from django_counters.write.thread import Worker

logger = logging.getLogger("django_counters")
# Seconds: how often a process looks for files of ended processes.
ADOPTING = 30.0
# The numbers of `random` belong to the code that seeds it: this thread takes none of them.
_dice = SystemRandom()


class Adopter:
    """Looks now and then for files of processes that have ended. One that hangs holds up no other.

    Attributes:
        lock: held while it lands something: no child is forked in the middle of it.
    """

    def __init__(self) -> None:
        # Files of which the log has told.
        self._strange: frozenset[str] = frozenset()
        self.worker = Worker("django_counters-adopting", lambda: self._at, self._adopt)
        self.begin()

    def begin(self) -> None:
        """Begin anew, in a child."""
        self.lock = threading.RLock()
        self._at = 0.0
        self.worker.begin()

    def _adopt(self) -> None:
        # Not all processes of a machine at once.
        self._at = time.monotonic() + ADOPTING * _dice.uniform(0.5, 1.5)
        try:
            with self.lock:
                report = adopt()
        except Exception:
            # Any error: the next attempt may do better.
            logger.exception("Counters: files of buffers cannot be adopted.")
            return
        finally:
            # Nothing is left to do for a long time.
            connections.close_all()
        for path, problem in report.strange.items():
            if path not in self._strange:
                logger.error("Counters: %s is left alone: %s", path, problem)
        self._strange = frozenset(report.strange)
        for path, problem in report.failed.items():
            logger.warning("Counters: %s cannot be landed yet: %s", path, problem)
