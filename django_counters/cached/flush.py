"""The flush: the amount that waits in Redis becomes part of the totals, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.db import DEFAULT_DB_ALIAS

from django_counters.cached.sources import sources
from django_counters.errors import CounterUnavailable, LandingRefused
from django_counters.features import features
from django_counters.landing import Landed, ParcelLanding, Sums, add_up, sums_of
from django_counters.registry import registry
from django_counters.signals import upkeep_done
from django_counters.stores.base import Parcel, PartitionBusy, SlotState
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.session import identity_of
from django_counters.tables import CounterIncident

if TYPE_CHECKING:
    from django_counters.cached.pending import Cut, RedisPending, SealedGeneration

_T = TypeVar("_T")
Step = Callable[[str], None]
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
    with registry.kept(SqlBatches, using).landing():
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


# The generations of one Redis: sealed, landed as parcels, acknowledged.


class GenerationBatch(NamedTuple):
    """Generations that are landed in one transaction.

    ``held``: the generations that were read; ``vanished`` could not be. ``sums`` are those of all
    that is held.
    """

    held: Mapping[SealedGeneration, Parcel]
    vanished: frozenset[SealedGeneration]
    sums: Sums


class Generations:
    """Lands what waits in a Redis. ``step`` is called with the name of each step before it."""

    def __init__(self, pending: RedisPending, using: str, step: Step) -> None:
        self._pending = pending
        self._using = using
        self._step = step
        self._batches = registry.kept(SqlBatches, using)
        # Before anything is read.
        self._began = _landings(using)
        self._landing = ParcelLanding(using, pending.name)

    def flush(self, largest: int) -> Iterator[Landed]:
        """Land all that is there; what became of each part, before it is acknowledged.

        Two rounds, if something sealed was there before: the open one can be sealed after that.
        """
        for _ in range(2):
            self._step("look")
            # Before the cut: a generation of that time is there still, has landed, or is lost.
            before = self._batches.source(self._pending.source)
            self._step("cut")
            cuts = self._pending.cut()
            self._step("judge")
            judgement = judge(before, cuts, self._batches)
            parts = list(_groups([one for cut in cuts for one in cut.sealed], largest)) or [[]]
            with _handover(self._pending, parts) as handed:
                # Not before all of a slot has landed is it judged.
                last = {one.slot: at for at, part in enumerate(parts) for one in part}
                for at in range(len(parts)):
                    slots = {slot for slot in range(len(cuts)) if last.get(slot, 0) == at}
                    yield from self._land(handed, at, judgement, slots)
            if not any(cut.fields for cut in cuts):
                return

    def _land(
        self, handed: Handover, at: int, judgement: Judgement, slots: Collection[int]
    ) -> Iterator[Landed]:
        """Land one part; ``slots`` are those that are done with it."""
        self._step("read")
        part = handed.take(at)
        concerns = judgement.of(slots, self._vanished(part.vanished))
        if not part.held and concerns == Judgement():
            return
        self._step("apply")
        landed, lost = self.commit(part, concerns)
        yield landed
        self._step("acknowledge")
        forgotten = {one: landed.forget.get(one.generation, ()) for one in part.held}
        # Totals that Redis knows there may lack what landed and could not be acknowledged any more.
        handed.remove(forgotten, lost)
        self._step("acknowledged")

    def commit(self, part: GenerationBatch, judgement: Judgement) -> tuple[Landed, set[int]]:
        """Land a part and write down what was found, in one transaction; slots that lost some.

        Raises:
            Busy: the database was put back since the part was read. A process may have landed it
                before, and all may know that.
        """
        parcels = list(part.held.values())
        with self._landing.begun(parcels):
            # A pooler may go on with a server that was put back.
            if _landings(self._using) != self._began:
                raise PartitionBusy
            told, lost = write(judgement, self._pending, self._using)
            landed = self._landing.land(parcels, part.sums)
        landed.incidents += told
        return landed, lost

    def _vanished(self, unread: Collection[SealedGeneration]) -> dict[int, list[str]]:
        """Generations that were there and could not be read, unless others have landed them."""
        lost: dict[int, list[str]] = {}
        landed = self._batches.known([one.generation for one in unread]) if unread else set()
        for one in sorted(unread):
            if one.generation not in landed:
                lost.setdefault(one.slot, []).append(one.generation)
        return lost


class Handover:
    """The parts of one look at a Redis. Where there are several, a thread asks Redis for them.

    While the database lands one part, Redis hands over the next one and removes the last one. To
    the protocol that is several flushes at once: a part is removed when it is committed, and not
    before.
    """

    def __init__(
        self,
        pending: RedisPending,
        groups: Sequence[Sequence[SealedGeneration]],
        beside: ThreadPoolExecutor,
    ) -> None:
        self._pending = pending
        self._groups = groups
        self._beside = beside
        self._next: Future[GenerationBatch] | None = None
        self._removed: Future[None] | None = None

    def take(self, at: int) -> GenerationBatch:
        """One part, in order; the one after it is read from now on."""
        part = self._read(at) if self._next is None else self._next.result()
        more = at + 1 < len(self._groups)
        self._next = self._beside.submit(self._read, at + 1) if more else None
        return part

    def remove(
        self, landed: Mapping[SealedGeneration, Sequence[str]], lost: Collection[int]
    ) -> None:
        """Remove what has landed, while the next part is landed if there is one.

        Totals that Redis knows in slots that have ``lost`` something are forgotten.

        Raises:
            CounterUnavailable: this part or the one before it may still be there. It is removed by
                the next flush, which finds that it has landed.
        """
        self.end()
        if self._next is None:
            self._pending.acknowledge(landed, lost)
        else:
            self._removed = self._beside.submit(self._pending.acknowledge, landed, lost)

    def end(self) -> None:
        """Wait until all is removed."""
        if self._removed is not None:
            self._removed.result()
            self._removed = None

    def _read(self, at: int) -> GenerationBatch:
        read = {one: self._pending.parcel(one) for one in self._groups[at]}
        held = {one: parcel for one, parcel in read.items() if parcel is not None}
        return GenerationBatch(held, frozenset(read.keys() - held.keys()), sums_of(held.values()))


@contextmanager
def _handover(
    pending: RedisPending, groups: Sequence[Sequence[SealedGeneration]]
) -> Iterator[Handover]:
    """Hand over parts; at the end of the block all that was to be removed is."""
    with ThreadPoolExecutor(1, "django_counters_flush") as beside:
        parts = Handover(pending, groups, beside)
        yield parts
        parts.end()


def _groups(sealed: Sequence[SealedGeneration], largest: int) -> Iterator[list[SealedGeneration]]:
    """Generations for one transaction each, none with more than so many counters if possible."""
    group: list[SealedGeneration] = []
    for one in sealed:
        if group and sum(s.fields for s in group) + one.fields > largest:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _landings(using: str) -> list[Hashable]:
    """Return the values that must not change while cached counters land (`Feature.landing`)."""
    return [feature.landing(using) for feature in features()]


# What Redis lost: generations that are missing.


@dataclass(frozen=True)
class Judgement:
    """The findings in the slots of one source, and the facts to remember.

    Attributes:
        lost: by slot, generations of which it is not known what became.
        births: by slot, generations that had none before them. In a slot that is known that means
            that the one before was lost, unless they have landed since they were found.
        histories: by slot, the history that the server had, and the one it has.
        seen: by slot, its present state, where that is new.
    """

    lost: Mapping[int, list[str]] = field(default_factory=dict)
    births: Mapping[int, list[str]] = field(default_factory=dict)
    histories: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    seen: Mapping[int, tuple[str, str]] = field(default_factory=dict)

    def of(self, slots: Collection[int], vanished: Mapping[int, list[str]]) -> Judgement:
        """The part about some slots, and the generations that have vanished meanwhile."""
        lost = {
            slot: [*self.lost.get(slot, ()), *vanished.get(slot, ())]
            for slot in {*self.lost, *vanished}
            if slot in slots or slot in vanished
        }
        return Judgement(
            lost, _only(slots, self.births), _only(slots, self.histories), _only(slots, self.seen)
        )


def judge(before: Mapping[int, SlotState], cuts: Sequence[Cut], batches: SqlBatches) -> Judgement:
    """Compare what is there with what was there.

    ``before`` has to be read before the cuts are made: a generation of that time is still there,
    has landed, or is lost.
    """
    missing: dict[int, set[str]] = {}
    births: dict[int, list[str]] = {}
    for cut in cuts:
        links = {cut.generation: cut.before, **{s.generation: s.before for s in cut.sealed}}
        missing[cut.slot] = _missing(before.get(cut.slot), links)
        if born := [generation for generation, parent in links.items() if not parent]:
            births[cut.slot] = born
    landed = batches.known(chain.from_iterable(missing.values()))
    news = [cut for cut in cuts if before.get(cut.slot) != (cut.generation, cut.history)]
    return Judgement(
        lost={slot: sorted(one - landed) for slot, one in missing.items() if one - landed},
        births=births,
        histories={
            cut.slot: (seen.timeline, cut.history)
            for cut in news
            if (seen := before.get(cut.slot)) and seen.timeline != cut.history
        },
        seen={cut.slot: (cut.generation, cut.history) for cut in news},
    )


def write(judgement: Judgement, pending: RedisPending, using: str) -> tuple[list[str], set[int]]:
    """Record what was found and remember what was seen, in the caller's transaction.

    Returns:
        What to tell of it, and the slots that have lost something.
    """
    told: list[str] = []
    if judgement == Judgement():
        return told, set()
    batches = registry.kept(SqlBatches, using)
    lost = {slot: list(generations) for slot, generations in judgement.lost.items()}
    for slot, born in _orphans(judgement.births, pending.source, batches).items():
        lost.setdefault(slot, []).extend(f"the one before {generation}" for generation in born)
    for slot, generations in sorted(lost.items()):
        detail: dict[str, Any] = {"generations": generations}
        if slot in judgement.histories:
            detail["history"] = list(judgement.histories[slot])
        if record(CounterIncident.Kind.LOST, f"{pending.name} [{slot}]", detail, using):
            told.append(f"lost: {pending.name} [{slot}]")
    if judgement.histories:
        pairs = [list(pair) for pair in sorted(set(judgement.histories.values()))]
        if record(CounterIncident.Kind.HISTORY, pending.name, {"histories": pairs}, using):
            told.append(f"history: {pending.name}")
    batches.remember(pending.source, judgement.seen)
    return told, set(lost)


def _missing(seen: SlotState | None, links: Mapping[str, str]) -> set[str]:
    """Generations that were there and are not: lost, unless they have landed.

    Each one names the one before it (``links``), so that one in the middle cannot vanish unnoticed.
    Generations before the last seen one were checked when that one was seen.
    """
    if seen is None:
        return set(links.values()) - links.keys() - {""}
    asked = {before for generation, before in links.items() if generation != seen.generation}
    return (asked | {seen.generation}) - links.keys() - {""}


def _orphans(
    births: Mapping[int, list[str]], source: str, batches: SqlBatches
) -> Mapping[int, list[str]]:
    """Those whose slot was known, so that there must have been something before them.

    Asked again, and held: others may have landed or remembered them meanwhile.
    """
    if not births:
        return {}
    stored = batches.source(source, hold=True)
    landed = batches.known({one for born in births.values() for one in born})
    orphans = {
        slot: [one for one in born if one != stored[slot].generation and one not in landed]
        for slot, born in births.items()
        if slot in stored
    }
    return {slot: born for slot, born in orphans.items() if born}


def _only(slots: Collection[int], by_slot: Mapping[int, _T]) -> dict[int, _T]:
    return {slot: value for slot, value in by_slot.items() if slot in slots}
