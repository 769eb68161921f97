"""Landing all that waits in Redis, before something is compared or taken away."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django_counters.cached.flush import FlushReport, flush

# A worker that was killed may hold rows until the database has noticed (seconds).
PATIENCE = 30.0


def settle(patience: float = PATIENCE) -> list[str]:
    """Land what waits; return what kept something from it, which is nothing as a rule.

    Nobody may count meanwhile: the last flush has to find what the ones before have left.
    """
    ends = time.monotonic() + patience
    problems: list[str] = []
    while True:
        report = flush()
        problems += _lasting(report)
        passing = list(_passing(report))
        if not passing:
            return problems
        if time.monotonic() > ends:
            return problems + passing
        time.sleep(0.2)


def _passing(report: FlushReport) -> Iterator[str]:
    for source, reason in report.away.items():
        yield f"the flush: {source} cannot be reached: {reason}"
    for source in report.busy:
        yield f"the flush: others hold what {source} has to change"


def _lasting(report: FlushReport) -> Iterator[str]:
    for counter, by in report.quarantined.items():
        yield f"the flush: {by} of {counter} could not be landed"
    for incident in report.incidents:
        if incident.startswith("lost"):
            yield f"the flush: {incident}"
