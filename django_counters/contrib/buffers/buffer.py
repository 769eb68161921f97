"""A buffer: increments of one process, merged by counter, until they are landed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import Error

from django_counters import clock
from django_counters.contrib.buffers.files import HIGH, LOW, File, Files
from django_counters.contrib.buffers.options import Buffering
from django_counters.contrib.buffers.pages import Place, Sealed, entry_of
from django_counters.contrib.buffers.threads import in_event_loop, lets_wait
from django_counters.exceptions import CounterError, OutcomeUnknown
from django_counters.stores.sql.batches import record_unsent
from django_counters.stores.sql.partitions import Busy
from django_counters.stores.sql.session import interrupts_statement
from django_counters.tokens import mint
from django_counters.types import Delta, Sums, deltas_of
from django_counters.write.landing import SOURCE, STILL, Entries, Entry, Lander, Page, key_of

logger = logging.getLogger("django_counters")
# Seconds: how long an attempt waits after one that failed, at most.
AGAIN = 10.0
# The errors that may end a landing. Nothing is lost by it.
FAILED = (CounterError, Busy, Error, RuntimeError)


# Its attributes are read for each increment: those of a tuple take longer.
@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Increments that are sealed together, so that they have one place in the history.

    Attributes:
        place: that place. Nothing that is begun later has a lower number.
        file: the file with a copy of the entries; None where they are in memory alone.
        cells: the words of the file; None where there is none.
        entries: how much came of each counter.
        cell_of: which of the words is the amount of an entry.
        since: since when it takes something.
    """

    place: Place
    file: File | None = None
    cells: memoryview[int] | None = None
    entries: Entries = field(default_factory=dict)
    cell_of: dict[Entry, int] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    @classmethod
    def begun(cls, place: Place, file: File | None) -> Interval:
        """An empty one, with a file or without."""
        if file is None:
            return cls(place)
        return cls(place._replace(made=file.head.made), file, file.cells)

    def has_room(self, most: int) -> bool:
        """Whether one more entry may come, where there may be so many."""
        return len(self.entries) < most and not (self.file and self.file.is_full)

    @property
    def is_kept(self) -> bool:
        """Whether all of it is in a file."""
        return self.file is not None or not self.entries


#: The state before the first increment. Nothing is ever added to it.
NOTHING = Interval(Place("", 0))


class Held(NamedTuple):
    """The state of one counter in a buffer.

    Attributes:
        amount: how much was not sent.
        sent: how much is in each page that may be counted by now.
        marks: where all of it is. While each of these stands, none of it was sent or landed.
        kept: the objects of the marks: no other thing takes its place in memory.
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


class _Here(threading.local):
    """Whether this thread is landing a buffer."""

    lands = False


_here = _Here()


def lands_here() -> bool:
    """Whether this thread is landing a buffer: no other thread can until it goes on."""
    return _here.lands


class Buffer:
    """Keeps increments in memory, and lands them in pages. A child of the process begins anew.

    Increments go into one interval. To land, that is parted, and the next increment begins
    another one. A page has one id from the first time on that it may have been counted, so it
    counts once however often it is sent. Nothing is parted while something waits that was parted
    before: so there are twice ``most`` entries at most, and in an event loop three times as many.

    Nothing is called while ``lock`` is held, and no object is made that the garbage collector looks
    after, an exception included: CPython runs signal handlers and finalizers there, and one that
    counts would wait for the lock that its own thread has. An exception of a signal handler comes
    between two calls, so changes that belong together happen under that lock.

    Attributes:
        lock: held by the thread that adds to the interval, or takes it away.
        interval: what takes increments; `NOTHING` until the first one.
        landing: held by the thread that lands.
        closed: whether nothing is taken any more.
    """

    def __init__(
        self,
        buffering: Buffering,
        lander: Lander,
        wake: Callable[[], bool],
        *,
        measured: bool,
        files: Files | None = None,
    ) -> None:
        self.buffering = buffering
        self.lander = lander
        self.files = files
        self._wake = wake
        self._measured = measured
        self.begin()

    def begin(self) -> None:
        """Be empty. In a child: what its parent had is counted by the parent."""
        if self.files is not None:
            self.files.begin()
        self.lock = threading.Lock()
        self.landing = threading.RLock()
        self.closed = not lets_wait()
        self.interval = NOTHING
        # The interval that lands, and its pages once it has some.
        self._parted = NOTHING
        self._sealed: Sealed | None = None
        # The place of the page that was begun last.
        self._last = Place(mint(clock.utc()).hex, 0)
        self._landed_at = clock.utc()
        self._not_before = 0.0
        self._failing = False
        self.lander.begin()

    @property
    def entries(self) -> Entries:
        """The increments that are not parted."""
        return self.interval.entries

    def add(self, entry: Entry, by: int, rest: list[Delta] | None = None) -> bool:
        """Keep an increment; False where there is no room.

        ``rest``: its last one is taken away in the moment in which the increment is kept.
        """
        with self.lock:
            interval = self.interval
            if entry in interval.entries:
                amount = interval.entries[entry] + by
                if interval.cells is not None:
                    if not LOW <= amount <= HIGH:
                        # More than a file can hold is counted by itself.
                        return False
                    interval.cells[interval.cell_of[entry]] = amount
                interval.entries[entry] = amount
                if rest:
                    del rest[-1]
                return True
        return self._begin(entry, by, rest)

    def cell_of(self, entry: Entry) -> tuple[memoryview[int] | None, int]:
        """The words of the file, and which of them is the amount of an entry; None: none is.

        A thread that keeps it adds to it as `add` does, as long as these are the present words.
        """
        interval = self.interval
        cell = interval.cell_of.get(entry)
        return (None, 0) if cell is None else (interval.cells, cell)

    def _begin(self, entry: Entry, by: int, rest: list[Delta] | None) -> bool:
        """Keep the first increment of an entry, under its name in the file if there is one."""
        while self._has_room():
            interval = self._opened()
            # First, as a thread that is interrupted then has kept nothing that no thread would
            # land.
            if not interval.entries and not self._wake():
                return False
            cell = interval.file.write(entry) if interval.file else 0
            # Without a cell the file is full, or gone: it is looked at again.
            if cell is not None and self._put(entry, by, interval, cell, rest):
                return True
            if entry in self.entries:
                return self.add(entry, by, rest)
        return False

    def _put(
        self, entry: Entry, by: int, interval: Interval, cell: int, rest: list[Delta] | None
    ) -> bool:
        """Keep it, unless another thread does, the interval was parted, or the end has come."""
        with self.lock:
            if self.closed or interval is not self.interval or entry in interval.entries:
                return False
            if interval.cells is not None:
                interval.cells[cell] = by
                interval.cell_of[entry] = cell
            interval.entries[entry] = by
            if rest:
                del rest[-1]
            return True

    def _opened(self) -> Interval:
        """What takes increments, which a thread that is first begins."""
        while (found := self.interval) is NOTHING:
            place = self._next()
            file = self.files.made(place.incarnation, place.number) if self.files else None
            fresh = Interval.begun(place, file)
            # Numbers are in the order in which they are landed, so a thread that has the last one
            # wins.
            with self.lock:
                wins = self.interval is NOTHING and self._last is place
                if wins:
                    self.interval = fresh
            if self.files and file and not wins:
                self.files.forget(file)
        return found

    def _next(self) -> Place:
        """The next place in the history, which no other thread gets. See `STILL`."""
        while True:
            last, now = self._last, clock.utc()
            is_still = self._parted is NOTHING and now >= self._landed_at + STILL
            fresh = mint(now).hex if is_still else last.incarnation
            place = Place(fresh, 1 if is_still else last.number + 1)
            with self.lock:
                is_mine = self._last is last
                if is_mine:
                    if is_still:
                        # First: a thread that sees the new place begins no other history.
                        self._landed_at = now
                    self._last = place
            if is_mine:
                return place

    def _has_room(self) -> bool:
        """Whether one more entry may wait. A thread that finds no room makes some."""
        if self.closed:
            return False
        return self.interval.has_room(self.buffering.most) or self._make_room()

    def _make_room(self) -> bool:
        """Land what is there, unless that has just failed; whether one more entry may wait now."""
        most = self.buffering.most
        if in_event_loop() or _here.lands or interrupts_statement(self.lander.using):
            # Others would wait for us: those of the loop, a thread that lands what we wait for, or
            # the driver.
            self._wake()
            return self.interval.has_room(min(2 * most, 3 * most - len(self._parted.entries)))
        self.land_due()
        return self.interval.has_room(most)

    def put(self, sums: Sums[Hashable]) -> None:
        """Keep what was committed; what there is no room for is counted at once.

        A thread that is interrupted goes on first: no other thread knows of it.

        Raises:
            Error, CounterError: some of it could not be counted, and is in incidents.
        """
        failed: BaseException | None = None
        rest = list(deltas_of(sums))[::-1]
        while rest:
            try:
                while rest:
                    self._put_last(rest)
            except BaseException as error:
                failed = failed or error
        if failed:
            raise failed

    def _put_last(self, rest: list[Delta]) -> None:
        delta, left = rest[-1], len(rest)
        entry = entry_of(delta)
        try:
            if entry is not None:
                self.add(entry, delta.by, rest)
        finally:
            if len(rest) == left:
                # For any reason that has kept it out of the buffer.
                self._apply_last(rest)

    def _apply_last(self, rest: list[Delta]) -> None:
        delta = rest[-1]
        try:
            self.lander.apply(delta)
        except BaseException as error:
            using = self.lander.using
            # A thread that was interrupted does not know how far it was.
            why = error if isinstance(error, Exception) else OutcomeUnknown(using=using)
            record_unsent(using, SOURCE, {str(delta.key): delta.by}, why)
            raise
        finally:
            del rest[-1]

    def land_due(self) -> None:
        """Land what is due. Where that fails it is due again after a while; the log tells of it.

        After any error, waiting increments still wait.
        """
        if self._is_due():
            with self.landing:
                # Another thread may just have landed it, or found that it cannot be landed.
                if self._is_due():
                    self._attempt()

    def _is_due(self) -> bool:
        moment = self.due()
        return moment is not None and moment <= time.monotonic()

    def _attempt(self) -> None:
        try:
            self.flush()
        except BaseException as error:
            self._not_before = time.monotonic() + min(self.buffering.seconds, AGAIN)
            if not isinstance(error, Exception):
                raise
            if not self._failing:
                # Once, and not each second of an outage.
                strange = not isinstance(error, FAILED)
                text = "Counters: a buffer cannot be landed yet: %s"
                logger.warning(text, error, exc_info=strange)
            self._failing = True

    def flush(self) -> int:
        """Land all that was there when it began; how many entries that were.

        Of a thread that is landing something, nothing: a thread that hears of a landing counts.

        Raises:
            Busy, CounterError: it still waits, and is landed by the next one.
        """
        if _here.lands:
            return 0
        with self.landing:
            try:
                _here.lands = True
                landed = self._land_parted()
                with self.lock:
                    self._parted, self.interval = self.interval, NOTHING
                landed += self._land_parted()
            finally:
                _here.lands = False
        self._not_before, self._failing = 0.0, False
        return landed

    def _land_parted(self) -> int:
        """Land what was parted, by the thread that it was. Readers see it all the time."""
        parted, lander = self._parted, self.lander
        if parted is NOTHING:
            return 0
        if self._sealed is None:
            self._sealed = Sealed(parted.entries, parted.place, lander.size)
        landed = 0
        for page in self._sealed:
            self._land(page)
            landed += len(page.entries)
        if self.files is not None and parted.file is not None:
            self.files.forget(parted.file)
        with self.lock:
            self._parted, self._sealed = NOTHING, None
        return landed

    def _land(self, page: Page) -> None:
        is_new = not page.sent
        if is_new:
            page.id = mint(clock.utc()).hex
        page.sent = True
        try:
            self.lander.land(page)
        except OutcomeUnknown:
            raise
        except (CounterError, Busy):
            # An earlier attempt may have counted it, even if this one fails.
            page.sent = not is_new
            raise
        page.landed = True
        self._landed_at = clock.utc()

    @property
    def is_kept(self) -> bool:
        """Whether all that waits is in files."""
        return self.interval.is_kept and self._parted.is_kept

    def leave(self) -> None:
        """Let go of the files: what could not be landed is landed by another process."""
        if self.files is not None:
            self.files.leave()

    def due(self) -> float | None:
        """When what waits is to be landed; None where nothing does."""
        oldest = self.interval if self._parted is NOTHING else self._parted
        if oldest is NOTHING:
            return None
        full = not self.interval.has_room(self.buffering.most)
        return max(oldest.since + (0.0 if full else self.buffering.seconds), self._not_before)

    def held(self, keys: Collection[str]) -> Mapping[str, Held]:
        """The pending amount of counters; nothing of those of which nothing waits."""
        found: dict[str, list[_Part]] = {}
        for entries, sealed in self._layers():
            for entry, by in self._of(entries, keys):
                page = sealed.page(entry) if sealed else None
                if page is None or not page.landed:
                    found.setdefault(key_of(entry), []).append((entries, page, by))
        return {key: _held(parts) for key, parts in found.items()}

    def waiting(self) -> Waiting:
        """How much waits."""
        oldest = self.interval if self._parted is NOTHING else self._parted
        amounts = [by for _, by, _ in self._rest()]
        age = time.monotonic() - oldest.since if amounts else 0.0
        return Waiting(len(amounts), sum(map(abs, amounts)), age)

    def amounts(self, *, sent: bool | None = None) -> dict[str, int]:
        """How much waits of each counter: all, or what was ``sent`` and may be counted, or not."""
        found: dict[str, int] = {}
        for entry, by, is_sent in self._rest():
            if sent in (None, is_sent):
                found[key_of(entry)] = found.get(key_of(entry), 0) + by
        return found

    def _rest(self) -> list[tuple[Entry, int, bool]]:
        return [
            (entry, by, sealed is not None and sealed.page(entry).sent)
            for entries, sealed in self._layers()
            for entry, by in list(entries.items())
            if sealed is None or not sealed.page(entry).landed
        ]

    def _layers(self) -> Iterator[tuple[Entries, Sealed | None]]:
        """All that waits: the open interval and the parted ones, with their pages if there are
        some."""
        with self.lock:
            interval, parted, sealed = self.interval, self._parted, self._sealed
        yield interval.entries, None
        yield parted.entries, sealed

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
