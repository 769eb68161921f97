"""What Redis has lost: noticed by the generations that should be there, and are not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from django_counters.registry import registry
from django_counters.stores.base import Seen
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.incidents import record
from django_counters.tables import CounterIncident

if TYPE_CHECKING:
    from django_counters.stores.redis.pending import Cut, RedisPending

_T = TypeVar("_T")


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
            lost,
            _only(slots, self.births),
            _only(slots, self.histories),
            _only(slots, self.seen),
        )


def judge(before: Mapping[int, Seen], cuts: Sequence[Cut], batches: SqlBatches) -> Judgement:
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
    batches = registry.batches(using)
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


def _missing(seen: Seen | None, links: Mapping[str, str]) -> set[str]:
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
