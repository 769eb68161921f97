"""Gathers the state of one database and its Redis for scrapes, in a thread and in limited time."""

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
from django_counters.tenants import acting_for, tenant

logger = logging.getLogger("django_counters")


@dataclass(frozen=True, slots=True)
class Scrape:
    """The source of the metrics of one database.

    Attributes:
        facts: the state of its counters.
        needed: how many findings need a person; None while a part of them is unknown.
        seconds: how long it took to gather all of it.
    """

    facts: Facts
    needed: int | None = None
    seconds: float | None = None


def scraping(using: str) -> Iterator[Scrape]:
    """Ask one database, and yield what is known after each part. Logs parts that are away."""
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
    """The number of findings, if all is known: a part of them would look like an improvement."""
    is_whole = all(getattr(found, part) is not None for part in NEEDED)
    return len(to_do(found)) if is_whole else None


class _Run:
    """One gathering, in a thread and on connections of its own."""

    def __init__(self, using: str) -> None:
        self.began = time.monotonic()
        self.done = threading.Event()
        self.found = Scrape(Facts(using))
        self._tenant = tenant()
        # A daemon thread that hangs does not keep the process from ending.
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
            with acting_for(self._tenant):
                for found in scraping(self.found.facts.using):
                    self.found = found
        finally:
            try:
                connections.close_all()
            finally:
                self.done.set()


class Gathering:
    """Gathers one database, one run at a time for any number of scrapes.

    Args:
        using: the database.
        max_age: how many seconds an answer is reused.
        patience: how many seconds to wait for a run. The parts known by then are the answer. A
            longer run has no answer afterwards, and no other begins before it ends.
    """

    def __init__(self, using: str, max_age: float, patience: float) -> None:
        self._using = using
        self._max_age = max_age
        self._patience = patience
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._run: _Run | None = None
        # Last: another thread that sees it takes the new lock.
        self._pid = os.getpid()

    def begin(self) -> _Run:
        """The run whose answer to use: the last one, or a new one."""
        if self._pid != os.getpid():
            # A fork has no threads of its parent.
            self._forget()
        with self._lock:
            run = self._run
            if run is None or (run.done.is_set() and run.age >= self._max_age):
                run = self._run = _Run(self._using)
            return run

    @property
    def is_idle(self) -> bool:
        """Whether no run of it goes on."""
        run = self._run
        return run is None or run.done.is_set()

    def answer(self, run: _Run) -> Scrape:
        """The findings of a run when it ends or takes too long."""
        if run.done.wait(max(0.0, self._patience - run.age)):
            return run.found
        late = run.age > self._patience + self._max_age
        return Scrape(Facts(self._using)) if late else run.found
