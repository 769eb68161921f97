"""Metrics for Prometheus; needs the extra ``metrics``. The import begins to count what happens.

Each process counts what happens in it, in the default registry of prometheus_client. A scrape asks
databases and Redis for their state.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from django.db import connections, transaction
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from django_counters import features, signals, types
from django_counters.metrics import samples
from django_counters.metrics.samples import Declared, Gathering, Scrape, samples_of, tallies
from django_counters.stores.sql.dialects import DIALECTS
from django_counters.tables.schema import databases
from django_counters.tenants import tenant

__all__ = ["CountersCollector", "exposition"]

logger = logging.getLogger("django_counters")

# Seconds. Prometheus itself waits for ten.
MAX_AGE = 5.0
PATIENCE = 8.0
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_UPKEEP_SIZES = (0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
_UPKEEP_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300)


def _histogram(declared: Declared, buckets: tuple[float, ...]) -> Histogram:
    return Histogram(declared.name, declared.meaning, declared.labels, buckets=buckets)


_changes = Counter(samples.CHANGES.name, samples.CHANGES.meaning, samples.CHANGES.labels)
_amount = Counter(samples.AMOUNT.name, samples.AMOUNT.meaning, samples.AMOUNT.labels)
_batch_size = _histogram(samples.BATCH_SIZE, _SIZES)
_upkeep_seconds = _histogram(samples.UPKEEP_SECONDS, _UPKEEP_SECONDS)
_upkeep_size = _histogram(samples.UPKEEP_SIZE, _UPKEEP_SIZES)


class _Meter:
    """Counts the batches of one strategy in one database."""

    def __init__(self, using: str, strategy: str) -> None:
        ways = ("up", "down")
        self._changes = [_changes.labels(using, strategy, way) for way in ways]
        self._amounts = [_amount.labels(using, strategy, way) for way in ways]
        self._size = _batch_size.labels(using, strategy)

    def count(self, batch: types.Batch) -> None:
        for way in (False, True):
            amounts = [abs(delta.by) for delta in batch.deltas if (delta.by < 0) is way]
            if amounts:
                self._changes[way].inc(len(amounts))
                self._amounts[way].inc(sum(amounts))
        self._size.observe(len(batch.deltas))


# How many answers are kept, each of one database and one tenant.
_MOST_KEPT = 100
# Looking up the labels takes as long as counting.
_meter = cache(_Meter)


@receiver(signals.batch_applied, dispatch_uid="django_counters.metrics")
def _count_batch(batch: types.Batch, strategy: str, using: str, **_: object) -> None:
    _meter(using, strategy).count(batch)


@receiver(signals.upkeep_done, dispatch_uid="django_counters.metrics")
def _count_upkeep(work: str, using: str, seconds: float, report: Any, **_: object) -> None:
    _upkeep_seconds.labels(using, work).observe(seconds)
    _upkeep_size.labels(using, work).observe(report.counters)


def _count_signals(tally: features.Tally) -> None:
    counter = Counter(tally.name, tally.meaning, tally.labels)

    def count(**arguments: Any) -> None:
        counter.labels(*(arguments[label] for label in tally.labels)).inc()

    signal = import_string(tally.signal)
    signal.connect(count, weak=False, dispatch_uid=f"django_counters.metrics.{tally.name}")


for _tally in tallies():
    _count_signals(_tally)


class CountersCollector(Collector):
    """Collects the state of the counters of databases. Raises nothing.

    One scrape at a time asks a database, in a thread of its own. Scrapes that come meanwhile, or
    within ``max_age`` seconds, get the same answer. A part that is away, or takes longer than
    ``patience`` seconds, is 0 in ``django_counters_up``, and its metrics are left out. The number
    of statements does not depend on the number of counters.

    Args:
        using: a database or several; the default is all that have the tables of counters.
        max_age: how many seconds an answer is reused.
        patience: how many seconds to wait for an answer.
    """

    def __init__(
        self,
        using: str | Iterable[str] | None = None,
        *,
        max_age: float = MAX_AGE,
        patience: float = PATIENCE,
    ) -> None:
        self._using = [using] if isinstance(using, str) else using and list(using)
        self._max_age = max_age
        self._patience = patience
        self._gatherings: dict[tuple[str, str], Gathering] = {}

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The metrics without samples, so that a registration sends no query."""
        yield from self._families(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The metrics with their samples, which are up to ``max_age`` seconds old."""
        asked = _databases() if self._using is None else self._using
        gatherings = [self._gathering(using) for using in asked]
        # Begin all of them, and wait for them together.
        runs = [(gathering, gathering.begin()) for gathering in gatherings]
        found = [gathering.answer(run) for gathering, run in runs]
        if self._using is None:
            # A database without our tables belongs to something else.
            found = [one for one in found if one.facts.has_counters is not False]
        yield from self._families(found)

    def _families(self, found: Iterable[Scrape]) -> Iterable[GaugeMetricFamily]:
        families = {
            one.name: GaugeMetricFamily(one.name, one.meaning, labels=one.labels)
            for one in samples.state()
        }
        for one in found:
            for metric, labels, value in samples_of(one):
                # An app may have failed since it had this value.
                if family := families.get(metric.name):
                    family.add_metric(labels, value)
        return families.values()

    def _gathering(self, using: str) -> Gathering:
        whose = using, tenant()
        found = self._gatherings.get(whose)
        if found is None and len(self._gatherings) >= _MOST_KEPT:
            # Those that ask just now stay, so that no database is asked twice at a time.
            kept = list(self._gatherings.items())
            self._gatherings = {of: one for of, one in kept if not one.is_idle}
        return found or self._gatherings.setdefault(
            whose, Gathering(using, self._max_age, self._patience)
        )


def _databases() -> list[str]:
    """All databases that may have the tables of counters."""
    try:
        return [alias for alias in databases() if connections[alias].vendor in DIALECTS]
    except Exception:
        # A router of the project failed; that must not hide the other metrics of the page.
        logger.exception("Metrics: the databases with counters are not known.")
        return []


_state = CountersCollector()


def _registry() -> CollectorRegistry:
    """The registry of the view: the metrics of this process or the files of all, and the state."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        registry.register(_state)
        return registry
    # It is registered already, by an earlier scrape or by the project.
    with suppress(ValueError):
        REGISTRY.register(_state)
    return REGISTRY


_View = Callable[[HttpRequest], HttpResponse]


def _outside_transactions(view: _View) -> _View:
    """With ``ATOMIC_REQUESTS``, the view would fail while a database is away."""
    for alias in connections:
        view = transaction.non_atomic_requests(alias)(view)
    return view


@_outside_transactions
@never_cache
@require_safe
def exposition(request: HttpRequest) -> HttpResponse:
    """The page that Prometheus scrapes. It needs no login: let only Prometheus reach it.

    It shows the default registry of prometheus_client and the state of the counters. If
    ``PROMETHEUS_MULTIPROC_DIR`` is set, it shows what all processes have counted.
    """
    try:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    except (TypeError, ValueError):
        # It asks for an unknown version.
        encode, content_type = choose_encoder("")
    return HttpResponse(encode(_registry()), content_type=content_type)
