"""The generations of one Redis: sealed, landed as parcels, acknowledged, and missed if they go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from django_counters.features import landings
from django_counters.intake.land import Landing, Sums, sums_of
from django_counters.intake.landed import Landed
from django_counters.intake.losses import Judgement, judge, write
from django_counters.registry import registry
from django_counters.stores.base import Parcel
from django_counters.stores.sql.partitions import Busy

if TYPE_CHECKING:
    from django_counters.stores.redis.pending import RedisPending, Sealed

Step = Callable[[str], None]


class Part(NamedTuple):
    """Generations that are landed in one transaction.

    ``held``: the generations that were read; ``vanished`` could not be. ``sums`` are those of all
    that is held.
    """

    held: Mapping[Sealed, Parcel]
    vanished: frozenset[Sealed]
    sums: Sums


class Generations:
    """Lands what waits in a Redis. ``step`` is called with the name of each step before it."""

    def __init__(self, pending: RedisPending, using: str, step: Step) -> None:
        self._pending = pending
        self._using = using
        self._step = step
        self._batches = registry.batches(using)
        # Before anything is read.
        self._began = landings(using)
        self._landing = Landing(using, pending.name)

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
                for at, slots in enumerate(_ends(parts, len(cuts))):
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

    def commit(self, part: Part, judgement: Judgement) -> tuple[Landed, set[int]]:
        """Land a part and write down what was found, in one transaction; slots that lost some.

        Raises:
            Busy: the database was put back since the part was read. A process may have landed it
                before, and all may know that.
        """
        parcels = list(part.held.values())
        with self._landing.begun(parcels):
            # A pooler may go on with a server that was put back.
            if landings(self._using) != self._began:
                raise Busy
            told, lost = write(judgement, self._pending, self._using)
            landed = self._landing.land(parcels, part.sums)
        landed.incidents += told
        return landed, lost

    def _vanished(self, unread: Collection[Sealed]) -> dict[int, list[str]]:
        """Generations that were there and could not be read, unless others have landed them."""
        lost: dict[int, list[str]] = {}
        landed = self._batches.known([one.generation for one in unread]) if unread else set()
        for one in sorted(unread):
            if one.generation not in landed:
                lost.setdefault(one.slot, []).append(one.generation)
        return lost


def _ends(parts: Sequence[Sequence[Sealed]], slots: int) -> list[set[int]]:
    """The slots that are done with each part: not before all of a slot has landed is it judged."""
    last = {one.slot: at for at, part in enumerate(parts) for one in part}
    return [{s for s in range(slots) if last.get(s, 0) == at} for at in range(len(parts))]


class Handover:
    """The parts of one look at a Redis. Where there are several, a thread asks Redis for them.

    While the database lands one part, Redis hands over the next one and removes the last one. To
    the protocol that is several flushes at once: a part is removed when it is committed, and not
    before.
    """

    def __init__(
        self, pending: RedisPending, groups: Sequence[Sequence[Sealed]], beside: ThreadPoolExecutor
    ) -> None:
        self._pending = pending
        self._groups = groups
        self._beside = beside
        self._next: Future[Part] | None = None
        self._removed: Future[None] | None = None

    def take(self, at: int) -> Part:
        """One part, in order; the one after it is read from now on."""
        part = self._read(at) if self._next is None else self._next.result()
        more = at + 1 < len(self._groups)
        self._next = self._beside.submit(self._read, at + 1) if more else None
        return part

    def remove(self, landed: Mapping[Sealed, Sequence[str]], lost: Collection[int]) -> None:
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

    def _read(self, at: int) -> Part:
        read = {one: self._pending.parcel(one) for one in self._groups[at]}
        held = {one: parcel for one, parcel in read.items() if parcel is not None}
        return Part(held, frozenset(read.keys() - held.keys()), sums_of(held.values()))


@contextmanager
def _handover(pending: RedisPending, groups: Sequence[Sequence[Sealed]]) -> Iterator[Handover]:
    """Hand over parts; at the end of the block all that was to be removed is."""
    with ThreadPoolExecutor(1, "django_counters_flush") as beside:
        parts = Handover(pending, groups, beside)
        yield parts
        parts.end()


def _groups(sealed: Sequence[Sealed], largest: int) -> Iterator[list[Sealed]]:
    """Generations for one transaction each, none with more than so many counters if possible."""
    group: list[Sealed] = []
    for one in sealed:
        if group and sum(s.fields for s in group) + one.fields > largest:
            yield group
            group = []
        group.append(one)
    if group:
        yield group
