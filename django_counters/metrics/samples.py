"""All metrics, and their samples of one database, gathered in a thread and in limited time."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from django.db import connections

from django_counters import tables, upkeep
from django_counters.features import Gauge, GaugeValue, Tally, features
from django_counters.metrics import facts
from django_counters.metrics.doctor import needed, to_do
from django_counters.tenants import acting_for, tenant

logger = logging.getLogger("django_counters")


class Declared(NamedTuple):
    """One metric.

    Attributes:
        name: as Prometheus has it; of a counter with ``_total``.
        kind: how Prometheus reads it.
        labels: each has few values, which settings and code fix. A key is never a label.
        meaning: its help text.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    labels: tuple[str, ...]
    meaning: str


def _counter(name: str, meaning: str, *labels: str) -> Declared:
    return Declared(name, "counter", ("database", *labels), meaning)


def _histogram(name: str, meaning: str, *labels: str) -> Declared:
    return Declared(name, "histogram", ("database", *labels), meaning)


def _gauge(name: str, meaning: str, *labels: str) -> Declared:
    return Declared(name, "gauge", ("database", *labels), meaning)


def declared_for(gauge: Gauge) -> Declared:
    """Return the metric of an app's gauge."""
    return _gauge(gauge.name, gauge.meaning, *gauge.labels)


# Counted in each process, as it happens.
CHANGES = _counter(
    "django_counters_changes_total",
    "Changes of a counter that calls made; direction is up or down.",
    "strategy",
    "direction",
)
AMOUNT = _counter(
    "django_counters_amount_total",
    "By how much those changes went up or down.",
    "strategy",
    "direction",
)
BATCH_SIZE = _histogram(
    "django_counters_batch_size", "How many counters one batch changed.", "strategy"
)
UPKEEP_SECONDS = _histogram(
    "django_counters_upkeep_seconds",
    "How long a flush or a rollup took that ended without an error.",
    "work",
)
UPKEEP_SIZE = _histogram(
    "django_counters_upkeep_batch_size",
    "How many totals a flush or a rollup changed; one that it changed twice counts twice.",
    "work",
)
HAPPENED = (CHANGES, AMOUNT, BATCH_SIZE, UPKEEP_SECONDS, UPKEEP_SIZE)


def tallies() -> list[Tally]:
    """Return the metrics that count signals of apps."""
    return [tally for feature in features() for tally in feature.tallies]


def happened() -> tuple[Declared, ...]:
    """Return all metrics that are counted as it happens, with those of installed apps."""
    own = (Declared(one.name, "counter", one.labels, one.meaning) for one in tallies())
    return (*HAPPENED, *own)


# Asked on each scrape.
UP = _gauge(
    "django_counters_up",
    "1 if a part of the state could be asked, else 0: then its metrics are not there.",
    "part",
)
GATHER_SECONDS = _gauge("django_counters_gather_seconds", "How long it took to ask all of it.")
PENDING = Gauge(
    "django_counters_pending_counters",
    "How many counters have something pending, by the strategy that they declare.",
    ("strategy", "redis"),
)
ROWS = Gauge(
    "django_counters_pending_rows",
    "How many shards, slots and entries of the ledger wait for a rollup.",
    ("strategy",),
)
INCIDENTS = _gauge(
    "django_counters_recent_incidents", "How many incidents there were in the last 7 days.", "kind"
)
REQUESTS = _gauge(
    "django_counters_adjustment_requests", "How many adjustments wait for a second person."
)
CREATED = _gauge(
    "django_counters_created_counters",
    "How many counters of a namespace were created over HTTP.",
    "namespace",
)
MOST_CREATED = _gauge(
    "django_counters_created_counters_most",
    "How many may be: `max_counters`. Where it is reached, new names are refused.",
    "namespace",
)
FINDINGS = _gauge(
    "django_counters_findings", "How many findings of `counters doctor` need an action."
)
STATE = (
    *(UP, GATHER_SECONDS, declared_for(PENDING), declared_for(ROWS)),
    *(INCIDENTS, REQUESTS, CREATED, MOST_CREATED, FINDINGS),
)


def state() -> tuple[Declared, ...]:
    """Return all metrics that are asked on each scrape, including those of apps."""
    of_apps = upkeep.attempted("", lambda feature: [*map(declared_for, feature.gauges())], {})
    return (*STATE, *(gauge for _app, gauges in of_apps for gauge in gauges))


@dataclass(frozen=True, slots=True)
class Scrape:
    """The source of the metrics of one database.

    Attributes:
        facts: the state of its counters.
        needed: how many findings need a person; None while a part of them is unknown.
        seconds: how long it took to gather all of it.
    """

    facts: facts.Facts
    needed: int | None = None
    seconds: float | None = None


def scraping(using: str) -> Iterator[Scrape]:
    """Ask one database, and yield what is known after each part. Logs parts that are away."""
    began = time.monotonic()
    found = facts.gather(facts.Facts(using), "tables")
    yield Scrape(found)
    if found.has_counters:
        for more in facts.growing(found, *needed(), "requests"):
            found = more
            yield Scrape(found)
        number: int | facts.Away | None = None
        # A part of the findings would look like an improvement.
        if all(found.known(part) is not None for part in needed()):
            number = facts.attempt("findings", using, lambda: len(to_do(found)))
        if isinstance(number, facts.Away):
            found, number = replace(found, away=(*found.away, number)), None
        yield Scrape(found, number, time.monotonic() - began)
    for away in found.away:
        logger.warning("Metrics: %s of the database %s is away: %s", away.part, using, away.reason)


class _Run:
    """One gathering, in a thread and on connections of its own."""

    def __init__(self, using: str) -> None:
        self.began = time.monotonic()
        self.done = threading.Event()
        self.found = Scrape(facts.Facts(using))
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
        return Scrape(facts.Facts(self._using)) if late else run.found


class Sample(NamedTuple):
    """One number of a metric, with the values of its labels in their order."""

    metric: Declared
    labels: tuple[str, ...]
    value: float


def samples_of(scrape: Scrape) -> Iterator[Sample]:
    """Yield the samples of one database: of every part that was read."""
    numbers: dict[tuple[Declared, tuple[str, ...]], float] = {}
    for metric, labels, value in _parts_of(scrape):
        # Rows of shards count for the present strategy, which may have others.
        numbers[metric, labels] = numbers.get((metric, labels), 0) + value
    for (metric, labels), value in numbers.items():
        yield Sample(metric, labels, value)


def _parts_of(scrape: Scrape) -> Iterator[Sample]:
    found, using = scrape.facts, scrape.facts.using
    for part, is_up in up(scrape).items():
        yield Sample(UP, (using, part), is_up)
    if scrape.seconds is not None:
        yield Sample(GATHER_SECONDS, (using,), scrape.seconds)
    if found.requests is not None:
        yield Sample(REQUESTS, (using,), found.requests)
    for room in found.rooms or ():
        yield Sample(CREATED, (using, room.namespace), room.created)
        yield Sample(MOST_CREATED, (using, room.namespace), room.most)
    if scrape.needed is not None:
        yield Sample(FINDINGS, (using,), scrape.needed)
    yield from _incidents(found)
    for one in _values(found):
        yield Sample(declared_for(one.gauge), (using, *one.labels), one.value)


def up(scrape: Scrape) -> dict[str, bool]:
    """Return the parts of the state, and whether all of each has answered."""
    found = scrape.facts
    own = {"pending": "spread", **dict.fromkeys(("incidents", "requests", "rooms"))}
    of_features = {
        name: name in found.parts and part.is_up(found.parts[name])
        for name, part in facts.feature_parts().items()
        if part.examined
    }
    known = {name: found.known(part or name) is not None for name, part in own.items()}
    has, told = bool(found.has_counters), scrape.needed is not None
    return {"database": has, **known, **of_features, "findings": told}


def _incidents(found: facts.Facts) -> Iterator[Sample]:
    if found.incidents is None:
        return
    numbers = {one.kind: one.number for one in found.incidents}
    for kind in {**dict.fromkeys(tables.CounterIncident.Kind.values, 0), **numbers}:
        yield Sample(INCIDENTS, (found.using, kind), numbers.get(kind, 0))


def _values(found: facts.Facts) -> Iterator[GaugeValue]:
    if found.spread is not None:
        waits = [(one.strategy, one.rows, one.counters) for one in found.spread]
        for strategy, rows, counters in (("sharded", 0, 0), ("slotted", 0, 0), *waits):
            yield GaugeValue(ROWS, (strategy,), rows)
            yield GaugeValue(PENDING, (strategy, ""), counters)
    for name, part in facts.feature_parts().items():
        if name in found.parts:
            yield from part.values(found.parts[name])
    for one in (*facts.local_findings(found.using), *(found.added or ())):
        if isinstance(one, GaugeValue):
            yield one
