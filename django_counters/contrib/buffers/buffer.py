"""A buffer: the increments of one process, merged by counter until they are flushed."""

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
from django_counters.contrib.buffers.pages import SealedInterval, Serial, entry_of
from django_counters.contrib.buffers.threads import in_event_loop, lets_wait
from django_counters.errors import CounterError, OutcomeUnknown
from django_counters.stores.base import PartitionBusy
from django_counters.stores.sql.incidents import record_unsent
from django_counters.stores.sql.session import interrupts_statement
from django_counters.tokens import mint
from django_counters.types import Delta, Sums, deltas_of
from django_counters.write.pages import SOURCE, STILL, Entries, Entry, Lander, Page, key_of

logger = logging.getLogger("django_counters")
# Seconds: how long an attempt waits after one that failed, at most.
AGAIN = 10.0
# The errors that may end a landing. Nothing is lost by it.
FAILED = (CounterError, PartitionBusy, Error, RuntimeError)


# Its attributes are read for each increment: those of a tuple take longer.
@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Increments that are sealed together, under one serial number.

    Attributes:
        serial: that number. Later intervals have higher numbers.
        file: the file with a copy of the entries; None if they are in memory alone.
        cells: the words of the file; None without a file.
        entries: the amount of each counter.
        cell_of: the index of the word with an entry's amount.
        since: when it was begun, by the monotonic clock.
    """

    serial: Serial
    file: File | None = None
    cells: memoryview[int] | None = None
    entries: Entries = field(default_factory=dict)
    cell_of: dict[Entry, int] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    @classmethod
    def begun(cls, serial: Serial, file: File | None) -> Interval:
        """Return an empty interval, with or without a file."""
        if file is None:
            return cls(serial)
        return cls(serial._replace(made=file.head.made), file, file.cells)

    def has_room(self, most: int) -> bool:
        """Return whether it can keep another entry, if ``most`` are allowed."""
        return len(self.entries) < most and not (self.file and self.file.is_full)

    @property
    def is_kept(self) -> bool:
        """Return whether all of it is in a file."""
        return self.file is not None or not self.entries


#: The state before the first increment. Nothing is ever added to it.
NOTHING = Interval(Serial("", 0))


class PendingAmount(NamedTuple):
    """The pending amount of one counter in a buffer.

    Attributes:
        amount: the amount that wasn't sent.
        sent: the amount in each page that may be counted already.
        marks: where the amounts are. If all of them are unchanged, nothing was sent or flushed.
        kept: the objects of the marks. They are kept so that no other object gets their id.
    """

    amount: int
    sent: tuple[tuple[Page, int], ...]
    marks: frozenset[tuple[int, bool]]
    kept: tuple[object, ...]


class Backlog(NamedTuple):
    """What is pending in a buffer: entries, their absolute amount, and seconds since the first."""

    entries: int
    amount: int
    age: float


# Where an amount is: among what was taken in together, and in which page of it.
_Part = tuple[Entries, Page | None, int]


class _ThreadState(threading.local):
    """Whether this thread is flushing a buffer."""

    lands = False


_here = _ThreadState()


def lands_here() -> bool:
    """Return whether this thread is flushing a buffer. No other thread can, until it goes on."""
    return _here.lands


class Buffer:
    """Keeps increments in memory, and flushes them in pages. A forked child begins empty.

    Increments are added to one interval. A flush parts that interval, and the next increment begins
    another. A page keeps its id from the first time that it may have been counted, so it counts
    once however often it is sent. Nothing is parted while a parted interval is pending. So there
    are at most twice ``most`` entries, and in an event loop three times as many.

    While ``lock`` is held, nothing is called, and no object is made that the garbage collector
    tracks, not even an exception: CPython runs signal handlers and finalizers there, and one that
    counts would wait for the lock of its own thread. An exception of a signal handler comes between
    two calls, so changes that belong together happen under that lock.

    Attributes:
        lock: held by the thread that adds to the interval or parts it.
        interval: the interval that increments are added to; `NOTHING` before the first.
        landing: held by the thread that flushes.
        closed: whether it refuses increments.
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
        """Drop everything: in a child, whose parent flushes its own increments."""
        if self.files is not None:
            self.files.begin()
        self.lock = threading.Lock()
        self.landing = threading.RLock()
        self.closed = not lets_wait()
        self.interval = NOTHING
        # The interval that lands, and its pages once it has some.
        self._parted = NOTHING
        self._sealed: SealedInterval | None = None
        # The serial number of the interval that was begun last.
        self._last = Serial(mint(clock.utc()).hex, 0)
        self._landed_at = clock.utc()
        self._not_before = 0.0
        self._failing = False
        self.lander.begin()

    @property
    def entries(self) -> Entries:
        """Return the increments that aren't parted."""
        return self.interval.entries

    def add(self, entry: Entry, by: int, rest: list[Delta] | None = None) -> bool:
        """Keep an increment; return False if there is no room.

        ``rest``: its last item is removed in the moment in which the increment is kept.
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
        """Return the words of the file, and the index of an entry's amount; None without one.

        A thread can add to that word as `add` does, as long as the interval has these words.
        """
        interval = self.interval
        cell = interval.cell_of.get(entry)
        return (None, 0) if cell is None else (interval.cells, cell)

    def _begin(self, entry: Entry, by: int, rest: list[Delta] | None) -> bool:
        """Keep the first increment of an entry, also under its name in the file."""
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
        """Keep it, unless another thread did, the interval was parted, or the buffer is closed."""
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
        """Return the interval for increments. The first thread begins it."""
        while (found := self.interval) is NOTHING:
            serial = self._next()
            file = self.files.made(serial.incarnation, serial.number) if self.files else None
            fresh = Interval.begun(serial, file)
            # Numbers are in the order in which they are landed, so a thread that has the last one
            # wins.
            with self.lock:
                wins = self.interval is NOTHING and self._last is serial
                if wins:
                    self.interval = fresh
            if self.files and file and not wins:
                self.files.forget(file)
        return found

    def _next(self) -> Serial:
        """Return the next serial number, which no other thread gets. See `STILL`."""
        while True:
            last, now = self._last, clock.utc()
            is_still = self._parted is NOTHING and now >= self._landed_at + STILL
            fresh = mint(now).hex if is_still else last.incarnation
            serial = Serial(fresh, 1 if is_still else last.number + 1)
            with self.lock:
                is_mine = self._last is last
                if is_mine:
                    if is_still:
                        # First: a thread that sees the new number begins no other history.
                        self._landed_at = now
                    self._last = serial
            if is_mine:
                return serial

    def _has_room(self) -> bool:
        """Return whether another entry can be kept, after making room if there is none."""
        if self.closed:
            return False
        return self.interval.has_room(self.buffering.most) or self._make_room()

    def _make_room(self) -> bool:
        """Flush, unless that has just failed; return whether another entry can be kept now."""
        most = self.buffering.most
        if in_event_loop() or _here.lands or interrupts_statement(self.lander.using):
            # Others would wait for us: those of the loop, a thread that lands what we wait for, or
            # the driver.
            self._wake()
            return self.interval.has_room(min(2 * most, 3 * most - len(self._parted.entries)))
        self.land_due()
        return self.interval.has_room(most)

    def put(self, sums: Sums[Hashable]) -> None:
        """Keep committed increments; count those at once that have no room.

        An interrupted thread finishes this first, because no other thread knows the increments.

        Raises:
            Error, CounterError: some couldn't be counted, and are incidents.
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
        """Flush what is due. If that fails, it is logged, and due again later.

        After any error, the increments are still pending.
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
        """Flush everything that was kept before the call; return the number of entries.

        Within a flush, such as in a receiver of its signal, it flushes nothing.

        Raises:
            Busy, CounterError: the increments are still pending. The next flush sends them.
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
        """Flush the parted interval. Readers see it until it is counted."""
        parted, lander = self._parted, self.lander
        if parted is NOTHING:
            return 0
        if self._sealed is None:
            self._sealed = SealedInterval(parted.entries, parted.serial, lander.size)
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
        except (CounterError, PartitionBusy):
            # An earlier attempt may have counted it, even if this one fails.
            page.sent = not is_new
            raise
        page.landed = True
        self._landed_at = clock.utc()

    @property
    def is_kept(self) -> bool:
        """Return whether everything pending is in files."""
        return self.interval.is_kept and self._parted.is_kept

    def leave(self) -> None:
        """Release the files: another process flushes the rest of them."""
        if self.files is not None:
            self.files.leave()

    def due(self) -> float | None:
        """Return when the next flush is due, by the monotonic clock; None if nothing is pending."""
        oldest = self.interval if self._parted is NOTHING else self._parted
        if oldest is NOTHING:
            return None
        full = not self.interval.has_room(self.buffering.most)
        return max(oldest.since + (0.0 if full else self.buffering.seconds), self._not_before)

    def held(self, keys: Collection[str]) -> Mapping[str, PendingAmount]:
        """Return the pending amount of each counter that has one."""
        found: dict[str, list[_Part]] = {}
        for entries, sealed in self._layers():
            for entry, by in self._of(entries, keys):
                page = sealed.page(entry) if sealed else None
                if page is None or not page.landed:
                    found.setdefault(key_of(entry), []).append((entries, page, by))
        return {key: _held(parts) for key, parts in found.items()}

    def waiting(self) -> Backlog:
        """Return what is pending."""
        oldest = self.interval if self._parted is NOTHING else self._parted
        amounts = [by for _, by, _ in self._rest()]
        age = time.monotonic() - oldest.since if amounts else 0.0
        return Backlog(len(amounts), sum(map(abs, amounts)), age)

    def amounts(self, *, sent: bool | None = None) -> dict[str, int]:
        """Return the pending amounts by counter: all, or only those that were ``sent`` or not."""
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

    def _layers(self) -> Iterator[tuple[Entries, SealedInterval | None]]:
        """Yield everything pending: the open interval, and the parted one with its pages."""
        with self.lock:
            interval, parted, sealed = self.interval, self._parted, self._sealed
        yield interval.entries, None
        yield parted.entries, sealed

    def _of(self, entries: Entries, keys: Collection[str]) -> list[tuple[Entry, int]]:
        """Return the entries of some counters."""
        if self._measured:
            # Each has several, of other periods and tags.
            return [(entry, by) for entry, by in list(entries.items()) if key_of(entry) in keys]
        return [(key, entries[key]) for key in keys if key in entries]


def _held(parts: list[_Part]) -> PendingAmount:
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
    return PendingAmount(amount, tuple(sent), marks, tuple(kept))
