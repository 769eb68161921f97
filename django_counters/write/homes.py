"""The directories of buffers: each is locked by the process that writes there, as long as it lives.

A child inherits what is open, and with it the locks of its parent. It closes them, or no process
could tell later that its parent has ended.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

#: Held while something is opened that a child has to close: no child may be forked in between.
opening = threading.RLock()
# The directories locked by this process.
_locked: set[int] = set()


class Home:
    """A directory that no other process reads, because this process has locked it.

    Attributes:
        path: where it is.
    """

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self._number = number

    @classmethod
    def made(cls, root: str, name: str) -> Home:
        """A new one. No process sees it before it is locked.

        Raises:
            OSError: it cannot be made, or a process that tidies up was faster.
        """
        os.makedirs(root, exist_ok=True)
        # Another name each time: a process that tidies up may have the former one for as long as it
        # likes.
        hidden, path = Path(root, f".{uuid4().hex}"), Path(root, name)
        hidden.mkdir(0o700)
        number = _lock(hidden)
        if number is None:
            raise FileNotFoundError(f"{hidden} has been taken by a process that tidies up")
        home = cls(path, number)
        try:
            hidden.rename(path)
        except OSError:
            home.release()
            raise
        return home

    def leave(self) -> None:
        """Remove it, unless something is left in it, and let go of the lock."""
        with suppress(OSError):
            self.path.rmdir()
        self.release()

    def release(self) -> None:
        """Let go of the lock: a process that comes next may land what is here."""
        with opening:
            if self._number in _locked:
                _locked.discard(self._number)
                os.close(self._number)


@contextmanager
def entered(path: Path) -> Iterator[bool]:
    """A block that has the directory of a process that has ended; False where it lives.

    Raises:
        OSError: it cannot be entered.
    """
    number = _lock(path)
    try:
        yield number is not None
    finally:
        if number is not None:
            Home(path, number).release()


def _lock(path: Path) -> int | None:
    """Open and lock a directory; None where another process has the lock."""
    with opening:
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # It may have been removed meanwhile, and made anew by a process that has locked that.
            if not os.path.samestat(os.fstat(number), os.stat(path)):
                raise BlockingIOError(f"{path} is another one by now")
        except BlockingIOError:
            os.close(number)
            return None
        except BaseException:
            os.close(number)
            raise
        _locked.add(number)
        return number


def begin_in_child() -> None:
    """Close what was inherited: the locks of the parent are its own."""
    global opening  # noqa: PLW0603
    opening = threading.RLock()
    for number in _locked:
        with suppress(OSError):
            os.close(number)
    _locked.clear()
