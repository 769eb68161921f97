"""What waits in Redis, in parts that are landed one after the other.

While the database lands one part, Redis hands over the next one and removes the last one. To the
protocol that is several flushes at once: a part is removed when it is committed, and not before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from django_counters.stores.redis.pending import Contents, RedisPending, Sealed

Sums = Mapping[str, Mapping[str, int]]


class Part(NamedTuple):
    """Generations that are landed in one transaction.

    ``held``: what was read of them; ``vanished`` could not be. ``sums`` are those of all that is
    held, by place and counter; the place of named counters is "".
    """

    held: Mapping[Sealed, Contents]
    vanished: frozenset[Sealed]
    sums: Sums


class Handover:
    """The parts of one look at a source. Where there are several, a thread asks Redis for them."""

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
        contents = {one: self._pending.contents(one) for one in self._groups[at]}
        held = {one: found for one, found in contents.items() if found is not None}
        return Part(held, frozenset(contents.keys() - held.keys()), sums_of(held.values()))


@contextmanager
def handover(pending: RedisPending, groups: Sequence[Sequence[Sealed]]) -> Iterator[Handover]:
    """Hand over parts; at the end of the block all that was to be removed is."""
    with ThreadPoolExecutor(1, "django_counters_flush") as beside:
        parts = Handover(pending, groups, beside)
        yield parts
        parts.end()


def groups(sealed: Sequence[Sealed], largest: int) -> Iterator[list[Sealed]]:
    """Generations for one transaction each, none with more than so many counters if possible."""
    group: list[Sealed] = []
    for one in sealed:
        if group and sum(s.fields for s in group) + one.fields > largest:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def sums_of(found: Iterable[Contents], without: Iterable[Mapping[str, int]] = ()) -> Sums:
    """What has to be added, by place and counter: named counters have keys without white space."""
    sums: dict[str, int] = {}
    for contents in found:
        for counter, by in contents.sums.items():
            sums[counter] = sums.get(counter, 0) + by
    for taken in without:
        for counter, by in taken.items():
            sums[counter] = sums.get(counter, 0) - by
    places: dict[str, dict[str, int]] = {}
    for counter, by in sums.items():
        place, _, key = counter.partition(" ") if " " in counter else ("", "", counter)
        if by:
            places.setdefault(place, {})[key] = by
    return places
