"""What a scrape asks of one database and its Redis, in a thread of its own, for a limited time."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db import connections

from django_counters.observe.doctor import NEEDED, to_do
from django_counters.observe.facts import Away, Facts, asked, gather, growing

logger = logging.getLogger("django_counters")


@dataclass(frozen=True, slots=True)
class Scrape:
    """What metrics are made of.

    Attributes:
        facts: how the counters of one database are.
        needed: how many things have to be done; None where not all is known that may say so.
        seconds: how long it took to gather all this.
    """

    facts: Facts
    needed: int | None = None
    seconds: float | None = None


def scraping(using: str) -> Iterator[Scrape]:
    """Ask one database, and give what is known after each part; what cannot be asked is logged."""
    began = time.monotonic()
    found = gather(Facts(using), "tables")
    yield Scrape(found)
    if found.has_counters:
        for more in growing(found, *NEEDED, "requests"):
            found = more
            yield Scrape(found)
        needed = asked("findings", using, lambda: _needed(found))
        if isinstance(needed, Away):
            found, needed = replace(found, away=(*found.away, needed)), None
        yield Scrape(found, needed, time.monotonic() - began)
    for away in found.away:
        logger.warning("Metrics: %s of the database %s is away: %s", away.part, using, away.reason)


def _needed(found: Facts) -> int | None:
    """Fewer findings than there are would look as if somebody had done something."""
    parts = (getattr(found, part) for part in NEEDED)
    is_whole = all(part is not None for part in parts)
    return len(to_do(found)) if is_whole else None


class _Run:
    """One gathering, in a thread and on connections of its own."""

    def __init__(self, using: str) -> None:
        self.began = time.monotonic()
        self.done = threading.Event()
        self.found = Scrape(Facts(using))
        # A daemon: what hangs must not keep a process from ending.
        thread = threading.Thread(target=self._gather, daemon=True, name="django_counters-metrics")
        try:
            thread.start()
        except RuntimeError:
            logger.exception("Metrics: there is no thread to ask the database %s in.", using)
            self.done.set()

    @property
    def age(self) -> float:
        return time.monotonic() - self.began

    def _gather(self) -> None:
        try:
            for found in scraping(self.found.facts.using):
                self.found = found
        finally:
            try:
                connections.close_all()
            finally:
                self.done.set()


class Gathering:
    """Gathers one database when it is asked to: one run at a time, however many ask.

    Args:
        using: the database.
        max_age: for how many seconds an answer is used again.
        patience: how many seconds a run is waited for; what it has by then is the answer. One that
            takes longer counts for nothing afterwards, and no other is begun before it ends.
    """

    def __init__(self, using: str, max_age: float, patience: float) -> None:
        self._using = using
        self._max_age = max_age
        self._patience = patience
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._run: _Run | None = None
        # Last: who sees it takes the new lock.
        self._pid = os.getpid()

    def begin(self) -> _Run:
        """The run whose answer is to be used: the last one, or a new one."""
        if self._pid != os.getpid():
            # The thread of the parent process is not here.
            self._forget()
        with self._lock:
            run = self._run
            if run is None or (run.done.is_set() and run.age >= self._max_age):
                run = self._run = _Run(self._using)
            return run

    def answer(self, run: _Run) -> Scrape:
        """What a run has found, as soon as it has ended or took too long."""
        if run.done.wait(max(0.0, self._patience - run.age)):
            return run.found
        late = run.age > self._patience + self._max_age
        return Scrape(Facts(self._using)) if late else run.found
