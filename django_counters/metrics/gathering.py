"""What a scrape asks of one database and its Redis, in a thread of its own, for a limited time."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from django.db import Error, connections

from django_counters.exceptions import CounterError
from django_counters.models import Counter
from django_counters.upkeep.backlog import known
from django_counters.upkeep.doctor import (
    Asked,
    Finding,
    Incidents,
    ask,
    findings,
    incidents,
    requests,
    waiting,
)
from django_counters.upkeep.ledger import State, state
from django_counters.upkeep.rooms import Room, rooms

logger = logging.getLogger("django_counters")
_T = TypeVar("_T")


@dataclass(slots=True)
class Gathered:
    """How the counters of one database are. What is not known, or not known yet, is None.

    Attributes:
        using: the database.
        tables: whether it has tables of counters.
        waits: what waits in shards and slots.
        ledger: how the ledger is.
        incidents: how many there were lately.
        requests: how many adjustments wait for a second person.
        rooms: how many counters were created over HTTP.
        redises: what each Redis answered; None for one that did not answer yet.
        findings: how many things have to be done.
        seconds: how long it took to gather this.
    """

    using: str
    tables: bool | None = None
    waits: tuple[Finding, ...] | None = None
    ledger: State | None = None
    incidents: tuple[Incidents, ...] | None = None
    requests: int | None = None
    rooms: tuple[Room, ...] | None = None
    redises: dict[str, Asked | None] | None = None
    findings: int | None = None
    seconds: float | None = None


def gather(found: Gathered) -> None:
    """Ask one database, part by part; what cannot be asked is left out, and logged.

    Changes nothing. The number of statements does not depend on how many counters there are.
    """
    using, began = found.using, time.monotonic()
    found.tables = _read("database", using, lambda: _has_tables(using))
    if not found.tables:
        return
    found.waits = _read("pending", using, lambda: tuple(waiting(using)))
    found.ledger = _read("ledger", using, lambda: state(using))
    found.incidents = _read("incidents", using, lambda: tuple(incidents(using)))
    found.requests = _read("requests", using, lambda: requests(using))
    found.rooms = _read("rooms", using, lambda: tuple(rooms(using)))
    _ask_redises(found)
    if _is_whole(found):
        found.findings = _read("findings", using, lambda: _needed(found))
    found.seconds = time.monotonic() - began


def _read(part: str, using: str, ask_it: Callable[[], _T]) -> _T | None:
    try:
        return ask_it()
    except (Error, CounterError) as error:
        logger.warning("Metrics: %s of the database %s is away: %s", part, using, error)
    except Exception:
        logger.exception("Metrics: %s of the database %s cannot be asked.", part, using)
    return None


def _has_tables(using: str) -> bool:
    return Counter._meta.db_table in connections[using].introspection.table_names()


def _ask_redises(found: Gathered) -> None:
    """Each Redis on its own: one that is slow to answer hides no other that came before it."""
    sources = _read("redis", found.using, lambda: tuple(known(found.using)))
    if sources is None:
        return
    found.redises = dict.fromkeys((source.name for source in sources), None)
    for source in sources:
        answer = _read(f"the Redis {source.name}", found.using, partial(ask, source))
        found.redises = {**found.redises, source.name: answer}


def _is_whole(found: Gathered) -> bool:
    """Fewer findings than there are would look as if somebody had done something."""
    parts = (found.waits, found.ledger, found.incidents, found.redises)
    return not any(one is None for one in (*parts, *(found.redises or {}).values()))


def _needed(found: Gathered) -> int:
    """What `doctor` says that has to be done, out of what was gathered."""
    asked = [one for one in (found.redises or {}).values() if one]
    parts = found.waits or (), found.ledger, asked, found.incidents or ()
    return sum(finding.needed for finding in findings(found.using, *parts))


class _Run:
    """One gathering, in a thread and on connections of its own."""

    def __init__(self, using: str) -> None:
        self.began = time.monotonic()
        self.done = threading.Event()
        self.found = Gathered(using)
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
            gather(self.found)
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

    def answer(self, run: _Run) -> Gathered:
        """What a run has found, as soon as it has ended or took too long."""
        if run.done.wait(max(0.0, self._patience - run.age)):
            return run.found
        late = run.age > self._patience + self._max_age
        return Gathered(self._using) if late else replace(run.found)
