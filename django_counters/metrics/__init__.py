"""Metrics for Prometheus; needs the extra ``metrics``. Whoever imports this counts what happens.

What happens in a process is counted there, in the default registry of prometheus_client. The state
of databases and Redis is asked when somebody scrapes.
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
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from django_counters.metrics import names
from django_counters.metrics.gathering import Gathering, Scrape
from django_counters.metrics.names import STATE, Declared
from django_counters.metrics.samples import samples
from django_counters.observe.facts import databases
from django_counters.signals import batch_applied, upkeep_done
from django_counters.stores.sql.dialects import DIALECTS
from django_counters.types import Batch

__all__ = ["CountersCollector", "exposition"]

logger = logging.getLogger("django_counters")

# Seconds. Prometheus itself waits for ten.
MAX_AGE = 5.0
PATIENCE = 8.0
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_UPKEEP_SIZES = (0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
_UPKEEP_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300)


def _counter(declared: Declared) -> Counter:
    return Counter(declared.name, declared.meaning, declared.labels)


def _histogram(declared: Declared, buckets: tuple[float, ...]) -> Histogram:
    return Histogram(declared.name, declared.meaning, declared.labels, buckets=buckets)


_changes = _counter(names.CHANGES)
_amount = _counter(names.AMOUNT)
_batch_size = _histogram(names.BATCH_SIZE, _SIZES)
_upkeep_seconds = _histogram(names.UPKEEP_SECONDS, _UPKEEP_SECONDS)
_upkeep_size = _histogram(names.UPKEEP_SIZE, _UPKEEP_SIZES)


class _Meter:
    """Counts the batches of one strategy in one database; looking up labels takes as long."""

    def __init__(self, using: str, strategy: str) -> None:
        ways = ("up", "down")
        self._changes = [_changes.labels(using, strategy, way) for way in ways]
        self._amounts = [_amount.labels(using, strategy, way) for way in ways]
        self._size = _batch_size.labels(using, strategy)

    def count(self, batch: Batch) -> None:
        if len(batch.deltas) == 1:
            self._add(batch.deltas[0].by < 0, 1, abs(batch.deltas[0].by))
        else:
            for way in (False, True):
                amounts = [abs(delta.by) for delta in batch.deltas if (delta.by < 0) is way]
                if amounts:
                    self._add(way, len(amounts), sum(amounts))
        self._size.observe(len(batch.deltas))

    def _add(self, way: bool, number: int, amount: int) -> None:
        self._changes[way].inc(number)
        self._amounts[way].inc(amount)


@cache
def _meter(using: str, strategy: str) -> _Meter:
    return _Meter(using, strategy)


@receiver(batch_applied, dispatch_uid="django_counters.metrics")
def _count_batch(batch: Batch, strategy: str, using: str, **_: object) -> None:
    _meter(using, strategy).count(batch)


@receiver(upkeep_done, dispatch_uid="django_counters.metrics")
def _count_upkeep(work: str, using: str, seconds: float, report: Any, **_: object) -> None:
    _upkeep_seconds.labels(using, work).observe(seconds)
    _upkeep_size.labels(using, work).observe(report.counters)


class CountersCollector(Collector):
    """Asks how the counters of databases are, for whoever collects. Raises nothing.

    Each database is asked in a thread of its own, by one scrape at a time: scrapes that come
    meanwhile, or within ``max_age`` seconds, get the same answer. What is away, or takes longer
    than ``patience`` seconds, is 0 in ``django_counters_up``, and its metrics are left out. The
    number of statements does not depend on how many counters there are.

    Args:
        using: a database or several; all that have the tables of counters where it is not given.
        max_age: for how many seconds an answer is used again.
        patience: how many seconds an answer is waited for.
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
        self._gatherings: dict[str, Gathering] = {}

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The metrics without samples: to be registered, nothing has to be asked."""
        yield from self._families(()).values()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The metrics with the samples of now, or of up to ``max_age`` seconds ago."""
        asked = _databases() if self._using is None else self._using
        gatherings = [self._gathering(using) for using in asked]
        # All of them first, so that they are waited for together.
        runs = [(gathering, gathering.begin()) for gathering in gatherings]
        found = [gathering.answer(run) for gathering, run in runs]
        # One without tables is somebody else's, unless it was asked for.
        told = [
            one for one in found if self._using is not None or one.facts.has_counters is not False
        ]
        yield from self._families(told).values()

    def _families(self, found: Iterable[Scrape]) -> dict[str, GaugeMetricFamily]:
        families = {
            one.name: GaugeMetricFamily(one.name, one.meaning, labels=one.labels) for one in STATE
        }
        for one in found:
            for metric, labels, value in samples(one):
                families[metric.name].add_metric(labels, value)
        return families

    def _gathering(self, using: str) -> Gathering:
        found = self._gatherings.get(using)
        return found or self._gatherings.setdefault(
            using, Gathering(using, self._max_age, self._patience)
        )


def _databases() -> list[str]:
    """All databases that may have the tables of counters."""
    try:
        return [alias for alias in databases() if connections[alias].vendor in DIALECTS]
    except Exception:
        # A router is the project's own; the other metrics of its page are worth more than ours.
        logger.exception("Metrics: the databases with counters are not known.")
        return []


_state = CountersCollector()


def _registry() -> CollectorRegistry:
    """What the view shows: the files of all processes where there are some, and the state."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        registry.register(_state)
        return registry
    # It has one already: an earlier scrape has registered ours, or the project its own.
    with suppress(ValueError):
        REGISTRY.register(_state)
    return REGISTRY


_View = Callable[[HttpRequest], HttpResponse]


def _outside_transactions(view: _View) -> _View:
    """``ATOMIC_REQUESTS`` would need the databases to say that they are away."""
    for alias in connections:
        view = transaction.non_atomic_requests(alias)(view)
    return view


@_outside_transactions
@never_cache
@require_safe
def exposition(request: HttpRequest) -> HttpResponse:
    """The page that Prometheus scrapes. Asks nobody who he is: let only Prometheus reach it.

    Shows the default registry of prometheus_client, with the state of the counters; where
    ``PROMETHEUS_MULTIPROC_DIR`` is set, what all processes have counted.
    """
    try:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    except (TypeError, ValueError):
        # It asks for a version that nobody knows.
        encode, content_type = choose_encoder("")
    return HttpResponse(encode(_registry()), content_type=content_type)
