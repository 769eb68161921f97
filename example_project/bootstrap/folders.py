"""Private folders: made by us, locked while in use, cleared away after a crash.

The lock is an ``flock`` on the folder itself: it needs no file and ends with its process.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from example_project.bootstrap import children
from example_project.bootstrap.children import Account

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "djc"
# macOS allows 104 bytes with the closing zero, Linux 108; PostgreSQL adds "/.s.PGSQL.5432".
LONGEST_FOLDER = 103 - len("/.s.PGSQL.5432")


class BootstrapError(Exception):
    """Something that the user has to decide or repair; the text says what."""


@dataclass(frozen=True)
class RunFolder:
    """A folder of one run; ``sockets`` tells whether it can hold unix sockets."""

    path: Path
    sockets: bool


def cache(*parts: str) -> Path:
    """Return our private folder for things worth keeping; made if need be.

    It is ``~/.cache/django_counters/<hash of the checkout>``, or under the temp folder when there
    is no home.

    Raises:
        BootstrapError: Neither can be made.
    """
    mark = hashlib.sha256(os.fsencode(ROOT)).hexdigest()[:12]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    with suppress(OSError):
        folder = Path(home) / "django_counters" / mark
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.path.isabs(home) and own(folder.joinpath(*parts)):
            return folder.joinpath(*parts)
    folder = Path(tempfile.gettempdir()) / f"django_counters-{os.geteuid()}-{mark}"
    if own(folder) and own(folder.joinpath(*parts)):
        return folder.joinpath(*parts)
    raise BootstrapError(f"{folder} cannot be made or belongs to somebody else: set HOME or TMPDIR")


def own(folder: Path, mode: int = 0o700) -> bool:
    """Make ``folder`` if need be; return whether it is a real folder of ours that we can write."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=mode)
            folder.chmod(mode)
        found = folder.lstat()
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return ours and os.access(folder, os.W_OK | os.X_OK)


def reachable(path: Path, account: Account | None) -> bool:
    """Tell whether the account can use ``path``, by asking as that account (so that ACLs count)."""
    if account is None:
        return os.access(path, os.X_OK)
    with suppress(OSError):
        return children.run_as(account, ["/bin/sh", "-c", 'test -x "$0"', path]).returncode == 0
    return False


def lock(folder: Path, *, wait: bool = False) -> int | None:
    """Lock ``folder``; return the open descriptor, or None if another process has it."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(number, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        return None
    except BaseException:
        os.close(number)
        raise
    return number


@contextmanager
def temporary(account: Account | None) -> Iterator[RunFolder]:
    """Give a short private folder, owned by ``account``, that is gone afterwards.

    Raises:
        BootstrapError: No temp folder can be used.
    """
    reap(account)
    run, number = _made(account)
    owner = os.getpid()
    try:
        yield run
    finally:
        if os.getpid() == owner:
            shutil.rmtree(run.path, ignore_errors=True)
        os.close(number)


def reap(account: Account | None) -> None:
    """Clear the folders, and servers, of runs that ended without doing so themselves."""
    ours = {os.geteuid()} | ({account.uid} if account else set())
    for base in _bases():
        for folder in base.glob(f"{PREFIX}-*"):
            with suppress(OSError):
                found = folder.lstat()
                if stat.S_ISDIR(found.st_mode) and found.st_uid in ours:
                    _reap_one(folder)


def _reap_one(folder: Path) -> None:
    number = lock(folder)
    if number is None:
        return
    try:
        for pid_file in folder.glob("*.pid"):
            end_leftover(pid_file, shows=folder)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(number)


def end_leftover(pid_file: Path, shows: Path) -> None:
    """End the process named in ``pid_file``, if it lives and its command line has ``shows``."""
    with suppress(OSError, ValueError, IndexError):
        children.end_leftover(int(pid_file.read_text().split()[0]), shows)


@contextmanager
def kept(wanted: Path, account: Account | None) -> Iterator[Path | None]:
    """Give a locked folder for data that stays; None if another run is using it.

    It is ``wanted``, or a private folder when we cannot own that one or ``account`` cannot reach
    it (root's server runs as a user who may not enter a home folder).

    Raises:
        BootstrapError: No folder will do.
    """
    # Root's folder lets the server's account through to its own data, and shows nobody a list.
    mode = 0o711 if account else 0o700
    folder = next((one for one in _keepers(wanted) if _keeps(one, mode, account)), None)
    if folder is None:
        raise BootstrapError(f"no folder can keep the data: {wanted} is not ours to write")
    number = lock(folder)
    try:
        yield folder if number is not None else None
    finally:
        if number is not None:
            os.close(number)


def _keepers(wanted: Path) -> Iterator[Path]:
    yield wanted.resolve()
    with suppress(BootstrapError):
        yield cache(wanted.name.lstrip("."))
    mark = hashlib.sha256(os.fsencode(wanted.resolve())).hexdigest()[:12]
    yield Path("/var/tmp") / f"django_counters-{os.geteuid()}-{mark}-{wanted.name.lstrip('.')}"


def _keeps(folder: Path, mode: int, account: Account | None) -> bool:
    return own(folder, mode) and reachable(folder, account)


def _bases() -> list[Path]:
    return list(dict.fromkeys(map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp"))))


def _made(account: Account | None) -> tuple[RunFolder, int]:
    for sockets in (True, False):
        for base in _bases():
            with suppress(OSError):
                folder, number = _locked_folder(base, account)
                if reachable(folder, account) and (not sockets or _holds_sockets(folder)):
                    return RunFolder(folder, sockets), number
                shutil.rmtree(folder, ignore_errors=True)
                os.close(number)
    raise BootstrapError("no temp folder can be written: set TMPDIR")


def _locked_folder(base: Path, account: Account | None) -> tuple[Path, int]:
    # Locked before it gets the name that ``reap`` looks for, so that no other run takes it.
    raw = Path(tempfile.mkdtemp(prefix=f"{PREFIX}~", dir=base))
    number = lock(raw, wait=True)
    assert number is not None
    folder = raw.rename(base / raw.name.replace("~", "-"))
    if account:
        os.chown(folder, account.uid, account.gid)
    return folder, number


def _holds_sockets(folder: Path) -> bool:
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        return False
    probe = folder / "probe"
    with socket.socket(socket.AF_UNIX) as test:
        try:
            test.bind(str(probe))
        except OSError:
            return False
    probe.unlink()
    return True
