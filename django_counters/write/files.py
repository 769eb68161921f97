"""The files of one buffer. Where none can be made, its increments wait in its memory alone."""

from __future__ import annotations

import logging
import threading

from django_counters import clock
from django_counters.buffering import Buffering
from django_counters.stores.sql.identity import part_of
from django_counters.strategies.declaring import Recipe
from django_counters.write.homes import Home
from django_counters.write.mapped import File, Head, Origin

logger = logging.getLogger("django_counters")
# How often a process that tidies up may come in the very moment in which a directory is made.
_PATIENCE = 20


class Files:
    """Makes files in the directory of a buffer, one after the other.

    Args:
        root: the directory that is declared.
        origin: for whom they count.
        most: how many entries one is made for, about.
    """

    def __init__(self, root: str, origin: Origin, most: int) -> None:
        self._root = root
        self._origin = origin
        self._most = most
        self._home: Home | None = None
        self._open: set[File] = set()
        self.begin()

    def begin(self) -> None:
        """Have none. In a child: those of its parent are the parent's."""
        for file in self._open:
            file.close()
        # A process that is interrupted while it holds the lock may take it again.
        self._lock = threading.RLock()
        self._open.clear()
        self._home = None
        # The history before the present one.
        self._before = ""
        self.failing = False

    def clear(self) -> None:
        """Remove all: for tests."""
        for file in list(self._open):
            self.forget(file)
        self.leave()

    def made(self, incarnation: str, number: int) -> File | None:
        """A new file; None where there can be none, which is logged once until there can be."""
        head = Head.of(incarnation, number, clock.utc(), self._origin)
        try:
            file = self._made(head)
        except OSError as error:
            if not self.failing:
                text = "Counters: a buffer has no file, and would be lost with its process: %s"
                logger.warning(text, error)
            self.failing = True
            return None
        self.failing = False
        self._open.add(file)
        return file

    def forget(self, file: File) -> None:
        """Remove a file that has landed. One that cannot be removed is found to have landed."""
        self._open.discard(file)
        try:
            file.forget()
        except OSError:
            logger.exception("Counters: a file that has landed is not removed.")

    def leave(self) -> None:
        """Remove what is empty, and let go of the rest: a process that comes next may land it."""
        home, self._home = self._home, None
        if home is not None:
            home.leave()

    def _made(self, head: Head) -> File:
        name = f"{head.number:016d}"
        # Two threads that make a directory at once would take it from each other.
        with self._lock:
            for _ in range(_PATIENCE):
                try:
                    return File(self._home_of(head.incarnation).path / name, head, self._most)
                except FileNotFoundError:
                    # A process has removed the directory, or just tidies up.
                    self.leave()
            return File(self._home_of(head.incarnation).path / name, head, self._most)

    def _home_of(self, incarnation: str) -> Home:
        home = self._home
        if incarnation == self._before:
            # A later history has begun, and needs the lock that is held for it.
            raise BlockingIOError(f"{incarnation} has ended")
        if home is None or home.path.name != incarnation:
            made = Home.made(self._root, incarnation)
            self._before = home.path.name if home else ""
            self.leave()
            home = self._home = made
        return home


def files_of(recipe: Recipe, buffering: Buffering, using: str) -> Files | None:
    """Where a buffer has its files; None where it declares no directory."""
    if buffering.directory is None:
        return None
    origin = Origin(using, part_of(using), recipe.strategy, dict(recipe.options))
    return Files(buffering.directory, origin, 2 * buffering.most)
