"""The write-ahead files of buffers, for the case that their process is killed.

Each buffer has a directory, which its process locks as long as it lives. A file there is a copy of
an interval in shared memory, which the system keeps when the process is gone. Writing an amount
into it isn't a system call. A record is a name and a number beside it::

    words of the record | amount | check of the name, its length | name

Everything but the amount is written once, before the amount. A process that reads the file later
skips names that aren't whole: nothing was counted under them.

A forked child inherits open files, and with them the locks of its parent. It closes them, because
other processes adopt files only after all locks are released.
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_ISREG
from struct import Struct
from typing import NamedTuple
from uuid import uuid4

from django_counters import clock
from django_counters.contrib.buffers.options import Buffering
from django_counters.contrib.buffers.pages import entry_in, text_of
from django_counters.effects import UnknownKind
from django_counters.stores.sql.session import part_of
from django_counters.strategies.declaring import Recipe
from django_counters.types import INT8, check_key
from django_counters.write.pages import Entries, Entry, key_of

logger = logging.getLogger("django_counters")
LOW, HIGH = INT8
MAGIC, VERSION = b"djcountr", 1
# Magic, version, length of what follows, incarnation, number, when it was made in milliseconds.
_HEAD = Struct("=8sII16sQq")
_CHECK = Struct("=Q")
_RECORD = Struct("=qqII")
_WORD = 8
# Bytes: by how much a file grows, its smallest capacity, and the room for each entry on average.
_STEP, _LEAST, _EACH = 1 << 16, 1 << 20, 256
# Elsewhere room is taken by writing zeros, so all of it is taken before anything is written.
_CAN_GROW = hasattr(os, "posix_fallocate")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
#: Held while something is opened that a child has to close: no child may be forked in between.
opening = threading.RLock()
# The directories locked by this process.
_locked: set[int] = set()
# How often a process that tidies up may come in the very moment in which a directory is made.
_PATIENCE = 20


# Directories


class Home:
    """A directory that is locked by this process, so no other process reads it.

    Attributes:
        path: where it is.
    """

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self._number = number

    @classmethod
    def made(cls, root: str, name: str) -> Home:
        """Make a directory. No process sees it before it is locked.

        Raises:
            OSError: it can't be made, or a process that tidies up was faster.
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
        """Remove it if it is empty, and release the lock."""
        with suppress(OSError):
            self.path.rmdir()
        self.release()

    def release(self) -> None:
        """Release the lock: another process can flush the files then."""
        with opening:
            if self._number in _locked:
                _locked.discard(self._number)
                os.close(self._number)


@contextmanager
def entered(path: Path) -> Iterator[bool]:
    """Lock the directory of an ended process for a block; yield False if the process lives.

    Raises:
        OSError: it can't be opened.
    """
    number = _lock(path)
    try:
        yield number is not None
    finally:
        if number is not None:
            Home(path, number).release()


def _lock(path: Path) -> int | None:
    """Open and lock a directory; return None if another process has the lock."""
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
    """Close inherited locks: they are the parent's."""
    global opening  # noqa: PLW0603
    opening = threading.RLock()
    for number in _locked:
        with suppress(OSError):
            os.close(number)
    _locked.clear()


# Files


class Unreadable(Exception):
    """A file that can't be flushed here. It is left alone."""


class Foreign(Unreadable):
    """A file that no buffer has written."""


class Origin(NamedTuple):
    """The counters of a file: with it, another process can flush it as its own process would have.

    Attributes:
        using: the alias of the database.
        part: separates the databases of tests.
        strategy: the name of the strategy.
        options: its arguments.
    """

    using: str
    part: str
    strategy: str
    options: dict[str, object]


class Head(NamedTuple):
    """The beginning of a file.

    Attributes:
        incarnation: its history.
        number: its serial number there.
        milliseconds: when it was made, since 1970.
        origin: its counters.
    """

    incarnation: str
    number: int
    milliseconds: int
    origin: Origin

    @classmethod
    def of(cls, incarnation: str, number: int, made: datetime, origin: Origin) -> Head:
        """Return the head of a new file."""
        return cls(incarnation, number, (made - _EPOCH) // _MILLISECOND, origin)

    @property
    def made(self) -> datetime:
        """Return when the file was made."""
        return _EPOCH + self.milliseconds * _MILLISECOND

    @property
    def packed(self) -> bytes:
        """Return it as bytes: a whole number of words."""
        text = json.dumps(self.origin).encode()
        text += b" " * (-(_HEAD.size + len(text)) % _WORD)
        told = len(text), bytes.fromhex(self.incarnation), self.number, self.milliseconds
        head = _HEAD.pack(MAGIC, VERSION, *told) + text
        return head + _CHECK.pack(zlib.crc32(head))


class File:
    """The file of an interval that isn't flushed.

    Attributes:
        path: where it is.
        head: its beginning.
        cells: the words of the file. Hold the lock of the buffer to change them.
        is_full: whether an entry had no room in it.
    """

    def __init__(self, path: Path, head: Head, most: int) -> None:
        """Make it. ``most``: about how many entries it has room for.

        Raises:
            OSError: it can't be made, or the disk is full.
        """
        self.path, self.head = path, head
        self.is_full = False
        self._lock = threading.Lock()
        begin = head.packed
        self._most = _whole(max(_LEAST, most * _EACH) + len(begin))
        self._at, self._room = len(begin) // _WORD, 0
        hidden = path.with_name(f".{path.name}")
        number = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(number, self._most)
            self._take(number, _STEP if _CAN_GROW else self._most)
            self._map = mmap.mmap(number, self._most)
            self._map[: len(begin)] = begin
            # A process that finds it by its name finds all of its head.
            hidden.rename(path)
        except BaseException:
            with suppress(OSError):
                hidden.unlink()
            raise
        finally:
            os.close(number)
        self._bytes = memoryview(self._map)
        self.cells = self._bytes.cast("q")

    def write(self, entry: Entry) -> int | None:
        """Write the name of an entry; return the index of its amount, None if there is no room."""
        text = text_of(entry).encode()
        size = -(-(_RECORD.size + len(text)) // _WORD)
        try:
            at = self._reserved(size)
            if at is not None:
                begin = at * _WORD
                self._bytes[begin + _RECORD.size : begin + _RECORD.size + len(text)] = text
                told = _check(begin, size, text), len(text)
                _RECORD.pack_into(self._bytes, begin, size, 0, *told)
        except ValueError:
            # It was landed meanwhile, and is gone.
            return None
        self.is_full = at is None
        return None if at is None else at + 1

    def _reserved(self, size: int) -> int | None:
        """Return the index of some words for one entry; None if there is no room."""
        while True:
            found = -1
            # As with the lock of a buffer, nothing is called.
            with self._lock:
                at = self._at
                # One word more, so that there is always an end.
                if at + size < self._room:
                    # A process that reads goes past it, also where it is never written to its end.
                    self.cells[at] = size
                    self._at = at + size
                    found = at
            if found >= 0:
                return found
            try:
                if not self._grow(size * _WORD):
                    return None
            except OSError:
                return None

    def _grow(self, by: int) -> bool:
        """Allocate more room on the disk; return False if the file can't be larger.

        Raises:
            OSError: the disk is full, or the file is gone.
        """
        room = self._room * _WORD
        until = min(_whole(room + max(by, _STEP)), self._most)
        if until <= room:
            return False
        # By its name: a number that was kept open may be that of another file by now.
        number = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._take(number, until)
        finally:
            os.close(number)
        return True

    def _take(self, number: int, until: int) -> None:
        """Allocate room on the disk: without it, a write to a full disk would end the process."""
        room = self._room * _WORD
        if _CAN_GROW:
            os.posix_fallocate(number, room, until - room)
        else:
            os.pwrite(number, bytes(until - room), room)
        self._room = max(self._room, until // _WORD)

    def forget(self) -> None:
        """Remove it: all of it is flushed."""
        try:
            self.path.unlink(missing_ok=True)
        finally:
            self.close()

    def close(self) -> None:
        """Close it. It stays on the disk, for another process."""
        if not self._map.closed:
            self.cells.release()
            self._bytes.release()
            self._map.close()


class FileContents(NamedTuple):
    """The contents of a file."""

    head: Head
    entries: Entries


def read(path: Path) -> FileContents:
    """Read the file of another process: every name that is whole.

    Raises:
        Foreign: no buffer of this user has written it, or its head is damaged.
        Unreadable: another version has written it, or it has rows of an app that isn't installed.
        OSError: it can't be read.
    """
    try:
        return _read(path)
    except (Unreadable, OSError):
        raise
    except UnknownKind as error:
        # Later files wait: once they were counted, it would count as a repeat.
        raise Unreadable(f"{error}: add its app to INSTALLED_APPS") from error
    except Exception as error:
        # Its checks are right, and no buffer writes what is in it.
        raise Foreign(f"it is no file of a buffer: {error!r}") from error


def _read(path: Path) -> FileContents:
    data = _data(path)
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise Foreign("it is no file of a buffer")
    _, version, length, incarnation, number, milliseconds = _HEAD.unpack_from(data)
    if version != VERSION:
        raise Unreadable(f"it is of version {version}, and {VERSION} is read here")
    end = _HEAD.size + length
    if len(data) < end + _CHECK.size or _CHECK.unpack_from(data, end) != (zlib.crc32(data[:end]),):
        raise Foreign("its beginning is damaged")
    try:
        using, part, strategy, options = json.loads(data[_HEAD.size : end])
        if not all(isinstance(text, str) for text in (using, part, strategy)):
            raise TypeError
        origin = Origin(using, part, strategy, dict(options))
    except (TypeError, ValueError) as error:
        raise Foreign("its beginning is strange") from error
    head = Head(incarnation.hex(), number, milliseconds, origin)
    if (head.incarnation, head.number) != (path.parent.name, int(path.name)):
        # It would move the history of another buffer.
        raise Foreign(f"it is number {head.number} of {head.incarnation}")
    if head.made < _EPOCH:
        raise Foreign("its beginning is strange")
    return FileContents(head, _entries(data, end + _CHECK.size))


def _entries(data: bytes, at: int) -> Entries:
    """Return the amounts that aren't zero."""
    entries: Entries = {}
    end = min(len(data.rstrip(b"\0")), len(data) - _RECORD.size + 1)
    while at < end:
        size, amount, check, length = _RECORD.unpack_from(data, at)
        if not 0 < size * _WORD <= len(data) - at:
            # The disk has lost a page of the file: the next record begins at some word after it.
            at += _WORD
            continue
        begin = at + _RECORD.size
        text = data[begin : begin + length]
        whole = len(text) == length and _RECORD.size + length <= size * _WORD
        if amount and whole and check == _check(at, size, text):
            entry = entry_in(text.decode())
            check_key(key_of(entry))
            entries[entry] = entries.get(entry, 0) + amount
        at += size * _WORD
    return entries


def _data(path: Path) -> bytes:
    """Return the bytes of a file, without unused pieces at its end."""
    found = bytearray()
    # A process that opens a pipe would wait for a process that writes into it.
    if not S_ISREG(path.lstat().st_mode):
        raise Foreign("it is no file")
    with open(path, "rb") as file:
        if (owner := os.fstat(file.fileno()).st_uid) != os.geteuid():
            raise Foreign(f"it belongs to another user, {owner}")
        while piece := file.read(_LEAST):
            if not piece.strip(b"\0"):
                break
            found += piece
    return bytes(found)


def _check(at: int, size: int, text: bytes) -> int:
    """Return the check of a record: of its text, its size and its index."""
    return zlib.crc32(text, zlib.crc32(_CHECK.pack(at << 24 ^ size)))


def _whole(size: int) -> int:
    """Round up to a whole step, so that pages of memory are whole."""
    return -(-size // _STEP) * _STEP


# The files of one buffer


class Files:
    """Makes files in the directory of a buffer, one after the other.

    Args:
        root: the directory that is declared.
        origin: their counters.
        most: about how many entries a file has room for.
    """

    def __init__(self, root: str, origin: Origin, most: int) -> None:
        self._root = root
        self._origin = origin
        self._most = most
        self._home: Home | None = None
        self._open: set[File] = set()
        self.begin()

    def begin(self) -> None:
        """Close all files: in a child, which leaves them to its parent."""
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
        """Remove all files: for tests."""
        for file in list(self._open):
            self.forget(file)
        self.leave()

    def made(self, incarnation: str, number: int) -> File | None:
        """Make a file; return None if that fails. It is logged once, until it succeeds again."""
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
        """Remove a flushed file. One that can't be removed isn't counted again."""
        self._open.discard(file)
        try:
            file.forget()
        except OSError:
            logger.exception("Counters: a file that has landed is not removed.")

    def leave(self) -> None:
        """Remove the directory if it is empty; else release it to other processes."""
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
    """Return the files of a buffer; None if it declares no directory."""
    if buffering.directory is None:
        return None
    origin = Origin(using, part_of(using), recipe.strategy, dict(recipe.options))
    return Files(buffering.directory, origin, 2 * buffering.most)
