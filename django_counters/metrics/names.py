"""All metrics: what each is called, what its labels are, and what it says."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Declared(NamedTuple):
    """One metric.

    Attributes:
        name: as Prometheus has it; of a counter with ``_total``.
        kind: how Prometheus reads it.
        labels: each has few values, which settings and code fix: never a key.
        meaning: what it says.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    labels: tuple[str, ...]
    meaning: str


# Counted in each process, as it happens.
CHANGES = Declared(
    "django_counters_changes_total",
    "counter",
    ("database", "strategy", "direction"),
    "Changes of a counter that calls made; direction is up or down.",
)
AMOUNT = Declared(
    "django_counters_amount_total",
    "counter",
    ("database", "strategy", "direction"),
    "By how much those changes went up or down.",
)
BATCH_SIZE = Declared(
    "django_counters_batch_size",
    "histogram",
    ("database", "strategy"),
    "How many counters one batch changed.",
)
UPKEEP_SECONDS = Declared(
    "django_counters_upkeep_seconds",
    "histogram",
    ("database", "work"),
    "How long a flush or a rollup took that ended without an error.",
)
UPKEEP_SIZE = Declared(
    "django_counters_upkeep_batch_size",
    "histogram",
    ("database", "work"),
    "How many totals a flush or a rollup changed; one that it changed twice counts twice.",
)
HAPPENED = (CHANGES, AMOUNT, BATCH_SIZE, UPKEEP_SECONDS, UPKEEP_SIZE)

# Asked when somebody scrapes.
UP = Declared(
    "django_counters_up",
    "gauge",
    ("database", "part"),
    "1 if a part of the state could be asked, else 0: then its metrics are not there.",
)
GATHER_SECONDS = Declared(
    "django_counters_gather_seconds",
    "gauge",
    ("database",),
    "How long it took to ask all of it.",
)
PENDING_COUNTERS = Declared(
    "django_counters_pending_counters",
    "gauge",
    ("database", "strategy", "redis"),
    "How many counters have something pending, by the strategy that they declare.",
)
PENDING_ROWS = Declared(
    "django_counters_pending_rows",
    "gauge",
    ("database", "strategy"),
    "How many shards, slots and entries of the ledger wait for a rollup.",
)
PENDING_GENERATIONS = Declared(
    "django_counters_pending_generations",
    "gauge",
    ("database", "redis"),
    "How many generations wait in a Redis for a flush.",
)
ROLLUP_LAG = Declared(
    "django_counters_rollup_lag_seconds",
    "gauge",
    ("database",),
    "How old the totals of the ledger are: the time since the last rollup that folded it.",
)
FLUSH_LAG = Declared(
    "django_counters_flush_lag_seconds",
    "gauge",
    ("database", "redis"),
    "For how long something waits in a Redis at most; 0 where nothing does.",
)
FENCED = Declared(
    "django_counters_ledger_fenced",
    "gauge",
    ("database",),
    "1 if the ledger came from another server and cannot be rolled up, else 0.",
)
PARTITIONS = Declared(
    "django_counters_partitions_ahead",
    "gauge",
    ("database",),
    "How many partitions of the ledger follow the present one without a gap.",
)
REDIS_UP = Declared(
    "django_counters_redis_up",
    "gauge",
    ("database", "redis"),
    "1 if a Redis answered what waits there, else 0.",
)
BREAKER = Declared(
    "django_counters_breaker_state",
    "gauge",
    ("database", "redis", "state"),
    "1 for the state of the breaker in the process that was scraped, 0 for the other states.",
)
INCIDENTS = Declared(
    "django_counters_recent_incidents",
    "gauge",
    ("database", "kind"),
    "How many incidents there were in the last 7 days.",
)
REQUESTS = Declared(
    "django_counters_adjustment_requests",
    "gauge",
    ("database",),
    "How many adjustments wait for a second person.",
)
CREATED = Declared(
    "django_counters_created_counters",
    "gauge",
    ("database", "namespace"),
    "How many counters of a namespace were created over HTTP.",
)
MOST_CREATED = Declared(
    "django_counters_created_counters_most",
    "gauge",
    ("database", "namespace"),
    "How many may be: `max_counters`. Where it is reached, new names are refused.",
)
FINDINGS = Declared(
    "django_counters_findings",
    "gauge",
    ("database",),
    "How many things somebody has to do something about: what `counters doctor` says is needed.",
)
STATE = (
    *(UP, GATHER_SECONDS, PENDING_COUNTERS, PENDING_ROWS, PENDING_GENERATIONS),
    *(ROLLUP_LAG, FLUSH_LAG, FENCED, PARTITIONS),
    *(REDIS_UP, BREAKER, INCIDENTS, REQUESTS, CREATED, MOST_CREATED, FINDINGS),
)
