"""The flush: the amount that waits in Redis becomes part of the totals, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from django.db import DEFAULT_DB_ALIAS

from django_counters.exceptions import CounterUnavailable, LandingRefused
from django_counters.intake.landed import Landed, add_up
from django_counters.intake.redis_generations import Generations, Step
from django_counters.registry import registry
from django_counters.signals import upkeep_done
from django_counters.stores.sql.identity import identity_of
from django_counters.stores.sql.partitions import PartitionBusy
from django_counters.upkeep.sources import sources

if TYPE_CHECKING:
    from django_counters.stores.redis.pending import RedisPending

ANOTHER = (
    "it was flushed to another database before. If that one is gone, and this one "
    "in its place, run manage.py counters flush --adopt once; else give this site a KEY_PREFIX of "
    "its own; in tests, use isolated_counters"
)
# How many counters one transaction changes: others may wait for it.
LARGEST = 20_000


@dataclass
class FlushReport:
    """The result of a flush.

    Attributes:
        generations: how many generations were landed.
        counters: how often a total was changed.
        quarantined: amounts that could not be landed, by counter; each is in an incident.
        incidents: the losses that were found.
        busy: sources where others held what was needed; they are flushed by the next run.
        away: sources that were not flushed, and why: they could not be reached, hold increments
            for another database, or belong to a feature that refuses to land them now.
        elsewhere: sources that another process was flushing.
    """

    generations: int = 0
    counters: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    incidents: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    away: dict[str, str] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)

    def add(self, landed: Landed) -> None:
        """Add what became of some generations."""
        self.generations += landed.parcels
        self.counters += landed.counters
        self.incidents += landed.incidents
        add_up(self.quarantined, landed.quarantined)


def flush(
    using: str = DEFAULT_DB_ALIAS,
    *,
    alone: bool = False,
    adopt: bool = False,
    largest: int = LARGEST,
    step: Step = lambda name: None,  # noqa: ARG005
) -> FlushReport:
    """Land all increments that waited in Redis when it began, in transactions of its own.

    Any number of these can run at once, be repeated, or die at any moment: a generation of
    increments is in the totals exactly once, because its id is written in the transaction that adds
    it. It is removed from Redis only after the commit. What Redis lost is found by the generations
    that are missing, and recorded as an incident.

    Args:
        using: the database.
        adopt: this database has taken the place of the one that was flushed to: land what was
            counted for that one.
        alone: leave out a Redis that another flush with ``alone`` is working on, to spare work.
        largest: how many counters a transaction changes, as far as generations allow it.
        step: called with the name of each step before it is taken.

    Raises:
        OutcomeUnknown, CounterUnavailable: the database was lost. Nothing has to be repaired.
        InvalidConfiguration: a cache of cached counters is not a Redis.
        RuntimeError: the caller has a transaction.
    """
    report, began = FlushReport(), time.monotonic()
    with registry.batches(using).landing():
        # In a caller's transaction, or without the database, it ends here: nothing is sealed yet.
        pass
    identity = identity_of(using)
    for pending in sources(using):
        try:
            if not pending.belongs_to(identity, adopt=adopt):
                report.away[pending.name] = ANOTHER
                continue
            with pending.flight() if alone else nullcontext(_alone) as goes_on:
                if goes_on is None:
                    report.elsewhere.append(pending.name)
                else:
                    _flush(pending, using, report, largest, partial(_renewed, goes_on, step))
        except CounterUnavailable as error:
            if error.using == using:
                raise
            report.away[pending.name] = error.reason
        except LandingRefused as error:
            report.away[pending.name] = str(error)
        except PartitionBusy:
            report.busy.append(pending.name)
    seconds = time.monotonic() - began
    upkeep_done.tell(FlushReport, work="flush", using=using, seconds=seconds, report=report)
    return report


def _flush(
    pending: RedisPending, using: str, report: FlushReport, largest: int, step: Step
) -> None:
    for landed in Generations(pending, using, step).flush(largest):
        report.add(landed)


def _alone() -> None:
    """There is no lock to renew while this flush goes on."""


def _renewed(goes_on: Callable[[], object], step: Step, name: str) -> None:
    if name == "read":
        goes_on()
    step(name)
