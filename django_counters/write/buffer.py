"""A buffer: increments of one process, merged by counter, until they are landed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from django.db import Error

from django_counters import clock
from django_counters.buffering import Buffering
from django_counters.exceptions import CounterError, OutcomeUnknown
from django_counters.stores.sql.incidents import record_unsent
from django_counters.stores.sql.partitions import Busy
from django_counters.tokens import mint
from django_counters.types import Sums, deltas_of
from django_counters.write.landing import SOURCE, Lander
from django_counters.write.native import in_event_loop
from django_counters.write.page import Entries, Entry, Page, Sealed, entry_of, key_of


class Held(NamedTuple):
    """What a buffer has of one counter.

    Attributes:
        amount: how much was not sent.
        sent: how much is in each page that may be counted by now.
        marks: where all of it is. While each of these stands, none of it was sent or landed.
        kept: what the marks stand for: no other thing takes its place in memory.
    """

    amount: int
    sent: tuple[tuple[Page, int], ...]
    marks: frozenset[tuple[int, bool]]
    kept: tuple[object, ...]


class Waiting(NamedTuple):
    """How much a buffer has: of how many entries, up and down together, and for how long."""

    entries: int
    amount: int
    age: float


# Where an amount is: among what was taken in together, and in which page of it.
_Part = tuple[Entries, Page | None, int]


class Buffer:
    """Keeps increments in memory, and lands them in pages. A child of the process begins anew.

    What is added goes into one dictionary. To land, that is sealed, and a new one takes its place.
    A page has one id from the first time on that it may have been counted, so it counts once
    however often it is sent. Nothing is sealed while something waits that was sealed before: so
    there are twice ``most`` entries at most, and in an event loop three times as many.

    Nothing is called while ``lock`` is held, and no object is made that the garbage collector looks
    after, an exception included: CPython runs signal handlers and finalizers there, and one that
    counts would wait for the lock that its own thread has.

    Attributes:
        lock: held by whoever adds to ``entries``, or takes them away.
        entries: what is not sealed.
        landing: held by whoever lands.
        since: since when one of the entries waits; None where there is none.
        closed: whether nothing is taken any more.
    """

    def __init__(
        self, buffering: Buffering, lander: Lander, wake: Callable[[], object], *, measured: bool
    ) -> None:
        self.buffering = buffering
        self.lander = lander
        self._wake = wake
        self._measured = measured
        self.begin()

    def begin(self) -> None:
        """Be empty. In a child: what its parent had is counted by the parent."""
        self.lock = threading.Lock()
        self.landing = threading.RLock()
        self.entries: Entries = {}
        self.since: float | None = None
        self.closed = False
        self._parting: Entries = {}
        self._parted: float | None = None
        self._sealed: Sealed | None = None
        self._not_before = 0.0
        self._known: frozenset[str] = frozenset()
        self._lander: int | None = None

    @property
    def lands_here(self) -> bool:
        """Whether this thread is landing it."""
        return self._lander == threading.get_ident()

    def add(self, entry: Entry, by: int) -> bool:
        """Keep an increment; False where there is no room."""
        with self.lock:
            if entry in self.entries:
                self.entries[entry] += by
                return True
        return self._begin(entry, by)

    def _begin(self, entry: Entry, by: int) -> bool:
        """Keep the first increment of an entry."""
        if not self._has_room():
            return False
        with self.lock:
            if self.closed:
                # Meanwhile: nobody lands what comes now.
                return False
            if entry in self.entries:
                self.entries[entry] += by
            else:
                self.entries[entry] = by
        if self.since is None:
            self.since = time.monotonic()
            self._wake()
        return True

    def _has_room(self) -> bool:
        """Whether one more entry may wait. Whoever finds no room makes some."""
        most = self.buffering.most
        if self.closed or len(self.entries) < most:
            return not self.closed
        if in_event_loop():
            # Others would wait for us.
            self._wake()
            return len(self.entries) < 2 * most
        # Where it cannot be landed, whoever counts this change by itself learns of it.
        with suppress(CounterError, Busy):
            self.flush()
        return len(self.entries) < most

    def put(self, sums: Sums[Hashable]) -> None:
        """Keep what was committed; what there is no room for is counted at once.

        Raises:
            Error, CounterError: some of it could not be counted, and is in incidents.
        """
        failed: Exception | None = None
        for delta in deltas_of(sums):
            entry = entry_of(delta)
            if entry is not None and self.add(entry, delta.by):
                continue
            try:
                self.lander.apply(delta)
            except (CounterError, Busy, Error) as error:
                # It is committed, so nobody counts it again; the others go on.
                record_unsent(self.lander.using, SOURCE, {str(delta.key): delta.by}, error)
                failed = failed or error
        if failed:
            raise failed

    def flush(self) -> int:
        """Land all that was there when it began; how many entries that were.

        Raises:
            Busy, CounterError: it still waits, and is landed by the next one.
        """
        with self.landing:
            if self.lands_here:
                # Somebody who hears of a landing counts something.
                return 0
            self._lander = threading.get_ident()
            try:
                earlier = self._land_sealed()
                if self._parting:
                    # Somebody was interrupted while he sealed it.
                    self._seal()
                    earlier += self._land_sealed()
                self._seal()
                return earlier + self._land_sealed()
            finally:
                self._lander = None

    def _seal(self) -> None:
        """Take away what is there. Readers see it all the time."""
        if not self._parting:
            fresh: Entries = {}
            self._parted, self.since = self.since or time.monotonic(), None
            with self.lock:
                self._parting = self.entries
                self.entries = fresh
        if self._parting:
            lander = self.lander
            self._sealed = Sealed(self._parting, lander.slot, lander.slots, lander.size)
        self._parting = {}

    def _land_sealed(self) -> int:
        landed = 0
        if self._sealed:
            # All of it is in the pages, also where somebody was interrupted before he said so.
            self._parting = {}
        for page in self._sealed or ():
            self._land(page)
            landed += len(page.entries)
        self._sealed = None
        return landed

    def _land(self, page: Page) -> None:
        is_new = not page.sent
        if is_new:
            # Nobody knows it by another id, and this one is remembered longest.
            page.id = mint(clock.utc()).hex
        page.sent = True
        try:
            self.lander.land(page, self._known)
        except OutcomeUnknown:
            raise
        except (CounterError, Busy):
            # An earlier attempt may have counted it, whatever this one says.
            page.sent = not is_new
            raise
        # Before its claim is forgotten: whoever finds no claim finds that it has landed.
        page.landed = True
        self._known = frozenset((page.id,))

    def due(self) -> float | None:
        """When what waits is to be landed; None where nothing does."""
        began = self._parted if self._sealed else self.since
        if began is None:
            return None
        full = len(self.entries) >= self.buffering.most
        return max(began + (0.0 if full else self.buffering.seconds), self._not_before)

    def postpone(self) -> None:
        """Let an interval pass before the next attempt."""
        self._not_before = time.monotonic() + self.buffering.seconds

    def held(self, keys: Collection[str]) -> Mapping[str, Held]:
        """What waits of counters; nothing of those of which nothing waits."""
        found: dict[str, list[_Part]] = {}
        for entries, sealed in self._layers():
            for entry, by in self._of(entries, keys):
                page = sealed.page(entry) if sealed else None
                if page is None or not page.landed:
                    found.setdefault(key_of(entry), []).append((entries, page, by))
        return {key: _held(parts) for key, parts in found.items()}

    def waiting(self) -> Waiting:
        """How much waits."""
        began = self._parted if self._sealed else self.since
        amounts = [by for _, by in self._rest()]
        age = time.monotonic() - began if amounts and began is not None else 0.0
        return Waiting(len(amounts), sum(map(abs, amounts)), age)

    def amounts(self) -> dict[str, int]:
        """How much waits of each counter."""
        found: dict[str, int] = {}
        for entry, by in self._rest():
            found[key_of(entry)] = found.get(key_of(entry), 0) + by
        return found

    def _rest(self) -> list[tuple[Entry, int]]:
        return [
            (entry, by)
            for entries, sealed in self._layers()
            for entry, by in list(entries.items())
            if sealed is None or not sealed.page(entry).landed
        ]

    def _layers(self) -> Iterator[tuple[Entries, Sealed | None]]:
        """All that waits: what takes increments, what was sealed, and what is just being sealed."""
        with self.lock:
            entries, parting, sealed = self.entries, self._parting, self._sealed
        yield entries, None
        if sealed is not None:
            yield sealed.entries, sealed
        if parting is not entries and (sealed is None or parting is not sealed.entries):
            yield parting, None

    def _of(self, entries: Entries, keys: Collection[str]) -> list[tuple[Entry, int]]:
        """The entries of some counters."""
        if self._measured:
            # Each has several, of other periods and tags.
            return [(entry, by) for entry, by in list(entries.items()) if key_of(entry) in keys]
        return [(key, entries[key]) for key in keys if key in entries]


def _held(parts: list[_Part]) -> Held:
    sent: list[tuple[Page, int]] = []
    amount = 0
    kept: list[tuple[object, bool]] = []
    for entries, page, by in parts:
        if page is not None and page.sent:
            sent.append((page, by))
            kept.append((page, True))
        else:
            amount += by
            kept.append((entries, False))
    marks = frozenset((id(where), is_sent) for where, is_sent in kept)
    return Held(amount, tuple(sent), marks, tuple(kept))
