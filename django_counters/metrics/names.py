"""All metrics: their names, labels and meanings."""

from __future__ import annotations

from typing import Literal, NamedTuple

from django_counters.features import Gauge, features, tallies


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
PENDING_COUNTERS = _gauge(
    "django_counters_pending_counters",
    "How many counters have something pending, by the strategy that they declare.",
    "strategy",
    "redis",
)
PENDING_ROWS = _gauge(
    "django_counters_pending_rows",
    "How many shards, slots and entries of the ledger wait for a rollup.",
    "strategy",
)
PENDING_GENERATIONS = _gauge(
    "django_counters_pending_generations",
    "How many generations wait in a Redis for a flush.",
    "redis",
)
ROLLUP_LAG = _gauge(
    "django_counters_rollup_lag_seconds",
    "How old the totals of the ledger are: the time since the last rollup that folded it.",
)
FLUSH_LAG = _gauge(
    "django_counters_flush_lag_seconds",
    "For how long something waits in a Redis at most; 0 where nothing does.",
    "redis",
)
FENCED = _gauge(
    "django_counters_ledger_fenced",
    "1 if the ledger came from another server and cannot be rolled up, else 0.",
)
PARTITIONS = _gauge(
    "django_counters_partitions_ahead",
    "How many partitions of the ledger follow the present one without a gap.",
)
REDIS_UP = _gauge(
    "django_counters_redis_up", "1 if a Redis answered what waits there, else 0.", "redis"
)
BREAKER = _gauge(
    "django_counters_breaker_state",
    "1 for the state of the breaker in the process that was scraped, 0 for the other states.",
    "redis",
    "state",
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
    "django_counters_findings",
    "How many findings of `counters doctor` need an action.",
)
BUFFERED = _gauge(
    "django_counters_buffered_amount",
    "How much waits in buffers of the process that was scraped, up and down together.",
    "strategy",
)
BUFFER_AGE = _gauge(
    "django_counters_buffer_age_seconds",
    "For how long something waits there at most; 0 where nothing does.",
    "strategy",
)
LEFT_FILES = _gauge(
    "django_counters_left_files",
    "How many files of buffers wait on this machine whose processes have ended.",
)
STATE = (
    *(UP, GATHER_SECONDS, PENDING_COUNTERS, PENDING_ROWS, PENDING_GENERATIONS),
    *(
        ROLLUP_LAG,
        FLUSH_LAG,
    ),
    *(FENCED, PARTITIONS, REDIS_UP, BREAKER, INCIDENTS, REQUESTS, CREATED, MOST_CREATED),
    *(FINDINGS, BUFFERED, BUFFER_AGE, LEFT_FILES),
)


def declared_for(gauge: Gauge) -> Declared:
    """Return the metric of an app's gauge."""
    return _gauge(gauge.name, gauge.meaning, *gauge.labels)


def state() -> tuple[Declared, ...]:
    """Return all metrics that are asked on each scrape, including those of apps."""
    return (*STATE, *(declared_for(gauge) for one in features() for gauge in one.gauges()))
