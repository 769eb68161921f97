"""One process of a machine lands for all whose buffers have files in one directory.

The processes of one machine count the same hot counters. One of them leads: it has a lock that the
system takes back when it ends. At the end of an interval the others seal their files, and the
leader lands these and its own together: one sum for each counter, in one transaction that moves the
history of each buffer. So each file counts once, whoever lands it. A process whose file was not
landed in time lands it itself, so none depends on another one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from django.db import Error

from django_counters.buffering import Buffering
from django_counters.exceptions import CounterError
from django_counters.stores.sql.partitions import Busy
from django_counters.stores.sql.positions import Moved
from django_counters.write.adopting import homes_in, pages_of
from django_counters.write.files import Files
from django_counters.write.homes import Home
from django_counters.write.landing import InDatabase, InRedis, Lander, Merging
from django_counters.write.mapped import SEALED, File, Foreign, Origin, Unreadable, read
from django_counters.write.page import Page

logger = logging.getLogger("django_counters")
# Seconds: how long a leader waits for the files of an interval, at most.
GRACE = 0.05
# Seconds: how long a process waits for its leader, at most.
PATIENCE = 10.0


class Handed(NamedTuple):
    """A sealed file of another process, and what is in it."""

    path: Path
    pages: Sequence[Page]


class Leadership:
    """Who lands the buffers of one kind in one directory. Buffers of other kinds have their own.

    Args:
        root: the directory.
        origin: for whom the buffers count.
        lander: lands their pages.
        seconds: how long an interval is.
    """

    def __init__(self, root: str, origin: Origin, lander: Merging, seconds: float) -> None:
        self._root = root
        self._origin = Origin(*json.loads(json.dumps(origin)))
        # A leader whose intervals are longer would be waited for in vain, and one of another user
        # of the system can read no file of this one.
        told = json.dumps([origin, seconds, os.geteuid()])
        kind = hashlib.sha256(told.encode()).hexdigest()
        self._path = Path(root, f".leader-{kind[:16]}")
        self._lander = lander
        self._seconds = seconds
        self.grace = min(GRACE, seconds / 4)
        # Not until the next turn of the leader: both would land it at once.
        self.patience = min(PATIENCE, seconds / 2)
        self.next_turn = 0.0
        self._home: Home | None = None

    def begin(self) -> None:
        """Lead nobody. In a child: its parent leads, or another process."""
        home, self._home = self._home, None
        if home is not None:
            home.release()

    @property
    def is_ours(self) -> bool:
        """Whether this process leads."""
        return self._home is not None

    def take(self) -> bool:
        """Lead, unless another process does; whether this process leads now."""
        try:
            self._home = self._home or Home.taken(self._path)
            if self._home is not None:
                self._begin_turn()
        except OSError:
            # It was removed, so another process may have made it anew and lead.
            self.leave()
        return self.is_ours

    def leave(self) -> None:
        """Let another process lead."""
        home, self._home = self._home, None
        if home is not None:
            home.leave()

    def _begin_turn(self) -> None:
        """Tell others when intervals end, by the clock that all processes of a machine have."""
        now = time.monotonic()
        self.next_turn = now + self._seconds
        os.utime(self._path, (now, now))

    def end_of(self, since: float) -> float:
        """When an interval ends that began at a moment: all processes with a leader end theirs at
        once."""
        try:
            turn = self._path.stat().st_mtime
        except OSError:
            return since + self._seconds
        return since + self._seconds - (since - turn) % self._seconds

    def hand_over(self, file: File, pages: Sequence[Page]) -> bool:
        """Let the leader land a file; False where it is gone."""
        for page in pages:
            # Before it can be: a read asks from now on whether it was.
            page.sent = True
        with suppress(OSError):
            file.seal()
            return True
        return False

    def takes(self, pages: Sequence[Page]) -> bool:
        """Whether what one process has is small enough to be landed with that of others."""
        return len(pages) <= self._lander.slots

    def collect(self, own: Sequence[Page]) -> None:
        """Land what was handed over, with own pages that are small, as far as that is possible.

        What is not landed here is landed by its own process, which asks whether it was.
        """
        pages = list(own) if self.takes(own) else []
        for page in pages:
            page.sent = True
        paths: list[Path] = []
        entries = sum(len(page.entries) for page in pages)
        for handed in self._handed():
            more = sum(len(page.entries) for page in handed.pages)
            if paths and entries + more > self._lander.size * self._lander.slots:
                self._land(pages, paths)
                pages, paths, entries = [], [], 0
            paths.append(handed.path)
            pages += handed.pages
            entries += more
        if paths:
            self._land(pages, paths)

    def _land(self, pages: Sequence[Page], paths: Sequence[Path]) -> None:
        try:
            self._lander.land_together(pages)
        except (CounterError, Busy, Moved, Error) as error:
            # Each of them is tried again by its own process, which tells why it cannot be landed.
            logger.info("Counters: the buffers of this machine are landed one by one: %s", error)
            return
        for path in paths:
            # Its own process removes it, too.
            with suppress(OSError):
                path.unlink()

    def _handed(self) -> Iterator[Handed]:
        """The files that were handed over and are small, one of each process."""
        homes: list[Path] = []
        with suppress(OSError):
            homes = homes_in(self._root)
        for home in homes:
            # Whoever removes one meanwhile has landed it.
            with suppress(OSError, Foreign, Unreadable):
                sealed = sorted(name for name in os.listdir(home) if name.endswith(SEALED))
                if sealed and (found := self._read(home / sealed[0])):
                    yield found

    def _read(self, path: Path) -> Handed | None:
        found = read(path)
        if found.head.origin != self._origin:
            return None
        pages = list(pages_of(found, self._lander))
        return Handed(path, pages) if self.takes(pages) else None


def leadership_of(files: Files | None, lander: Lander, buffering: Buffering) -> Leadership | None:
    """Who lands a buffer with others; None where it has no files, or goes into a stream."""
    if files is None or not isinstance(lander, InDatabase | InRedis):
        return None
    return Leadership(files.root, files.origin, lander, buffering.seconds)
