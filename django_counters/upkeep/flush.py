"""The flush: what waits in Redis becomes part of the totals, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from django.db import DEFAULT_DB_ALIAS

from django_counters.exceptions import CounterUnavailable
from django_counters.signals import upkeep_done
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.identity import identity_of
from django_counters.stores.sql.partitions import Busy
from django_counters.upkeep.fence import Judgement, judge
from django_counters.upkeep.landing import Landed, Landing
from django_counters.upkeep.parts import Handover, groups, handover
from django_counters.upkeep.sources import sources

if TYPE_CHECKING:
    from django_counters.stores.redis.pending import RedisPending, Sealed

ANOTHER = (
    "it was flushed to another database before. If that one is gone, and this one "
    "in its place, run manage.py counters flush --adopt once; else give this site a KEY_PREFIX of "
    "its own; in tests, use isolated_counters"
)
# How many counters one transaction changes: others may wait for it.
LARGEST = 20_000


@dataclass
class Report:
    """What a flush did.

    Attributes:
        generations: how many generations were landed.
        counters: how often a total was changed.
        quarantined: amounts that could not be landed, by counter; each is in an incident.
        incidents: what was found to be lost.
        busy: sources where others held what was needed; they are flushed by the next run.
        away: sources that were not flushed, because they could not be reached or hold increments
            for another database, and why.
        elsewhere: sources that somebody else was flushing.
    """

    generations: int = 0
    counters: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    incidents: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    away: dict[str, str] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)

    def add(self, landed: Landed, told: Sequence[str]) -> None:
        """Add what became of some generations, and what was found."""
        self.generations += landed.generations
        self.counters += landed.counters
        self.incidents += told
        for counter, by in landed.quarantined.items():
            self.quarantined[counter] = self.quarantined.get(counter, 0) + by


Step = Callable[[str], None]


def flush(
    using: str = DEFAULT_DB_ALIAS,
    *,
    alone: bool = False,
    adopt: bool = False,
    largest: int = LARGEST,
    step: Step = lambda name: None,  # noqa: ARG005
) -> Report:
    """Land all increments that waited in Redis when it began, in transactions of its own.

    Any number of these can run at once, be repeated, or die at any moment: a generation of
    increments is in the totals exactly once, because its id is written in the transaction that adds
    it, and it is removed from Redis only after that is committed. What Redis lost is found by the
    generations that are missing, and recorded as an incident.

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
    report, began = Report(), time.monotonic()
    with SqlBatches(using).landing():
        # In a caller's transaction, or without the database, it ends here: nothing is sealed yet.
        pass
    identity = identity_of(using)
    for pending in sources(using):
        try:
            if not pending.belongs_to(identity, adopt=adopt):
                report.away[pending.name] = ANOTHER
                continue
            if not alone:
                _flush(pending, using, largest, report, step)
                continue
            with pending.flight() as goes_on:
                if goes_on:
                    renewed = partial(_renewed, goes_on, step)
                    _flush(pending, using, largest, report, renewed)
                else:
                    report.elsewhere.append(pending.name)
        except CounterUnavailable as error:
            if error.using == using:
                raise
            report.away[pending.name] = error.reason
        except Busy:
            report.busy.append(pending.name)
    seconds = time.monotonic() - began
    upkeep_done.tell(Report, work="flush", using=using, seconds=seconds, report=report)
    return report


def _renewed(goes_on: Callable[[], object], step: Step, name: str) -> None:
    if name == "read":
        goes_on()
    step(name)


def _flush(pending: RedisPending, using: str, largest: int, report: Report, step: Step) -> None:
    """Two rounds, if something sealed was there before: what is open can be sealed after that."""
    batches = SqlBatches(using)
    landing = Landing(using, pending, batches)
    for _ in range(2):
        step("look")
        # Before the cut: what was there then is there still, or has landed, or is lost.
        before = batches.source(pending.source)
        step("cut")
        cuts = pending.cut()
        step("judge")
        judgement = judge(before, cuts, batches)
        parts = list(groups([one for cut in cuts for one in cut.sealed], largest)) or [[]]
        with handover(pending, parts) as handed:
            for at, slots in enumerate(_ends(parts, len(cuts))):
                _land(handed, at, landing, judgement, slots, report, step)
        if not any(cut.fields for cut in cuts):
            return


def _ends(parts: Sequence[Sequence[Sealed]], slots: int) -> list[set[int]]:
    """The slots that are done with each part: not before all of a slot has landed is it judged."""
    last = {one.slot: at for at, part in enumerate(parts) for one in part}
    return [{s for s in range(slots) if last.get(s, 0) == at} for at in range(len(parts))]


def _land(
    handed: Handover,
    at: int,
    landing: Landing,
    judgement: Judgement,
    slots: Collection[int],
    report: Report,
    step: Step,
) -> None:
    step("read")
    part = handed.take(at)
    concerns = judgement.of(slots, landing.vanished(part.vanished))
    if not part.held and concerns == Judgement():
        return
    step("apply")
    landed, told = landing.commit(part, concerns)
    report.add(landed, told)
    step("acknowledge")
    forgotten = {one: landed.forget.get(one.generation, ()) for one in part.held}
    handed.remove(forgotten, landed.lost)
    step("acknowledged")
