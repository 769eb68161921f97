"""Lands the files of buffers whose processes have ended. Any number of processes may, at once."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from django.db import connections

from django_counters.conf import strategies
from django_counters.contrib.buffers.files import Foreign, Found, Origin, Unreadable, entered, read
from django_counters.contrib.buffers.pages import InDatabase, Place, Sealed
from django_counters.registry import registry
from django_counters.stores.sql.identity import part_of
from django_counters.strategies.declaring import Recipe

logger = logging.getLogger("django_counters")
# The names of directories that are ours, with a dot before they are locked, and of files.
_HOME, _FILE, _HIDDEN = (
    re.compile(rule) for rule in (r"\.?[0-9a-f]{32}", r"[0-9]{16,}", r"\.[0-9]{16,}")
)


class Adopted(NamedTuple):
    """What became of files.

    Attributes:
        files: how many were landed and removed.
        strange: those that cannot be landed here, and why. They are left as they are.
        failed: those that could not be landed yet, and why.
    """

    files: int
    strange: dict[str, str]
    failed: dict[str, str]


class Left(NamedTuple):
    """A file of a process that has ended, or what stands in its place.

    Attributes:
        path: where it is.
        found: its contents; None where that cannot be read.
        problem: why it cannot be landed here; empty where it can.
        bars: whether those that come later in the same directory have to wait for it.
    """

    path: Path
    found: Found | None
    problem: str = ""
    bars: bool = False


def directories() -> list[str]:
    """The directories that namespaces declare."""
    declared = (policy.options.get("buffer") for policy in registry.policies().values())
    return sorted({one["directory"] for one in declared if one and one.get("directory")})


def adopt(using: str | None = None) -> Adopted:
    """Land the files of processes that have ended, each of them once, and remove them.

    Of those of one process the lower numbers come first. What cannot be landed yet is landed by the
    next one who tries.

    Args:
        using: files of other databases are left alone; None: of none.
    """
    report = Adopted(0, {}, {})
    for home, files in _abandoned():
        report = _adopt_files(files, using, report)
        if home is not None:
            _tidy(home)
    return report


def left(using: str) -> Iterator[Left]:
    """What processes that have ended have left for one database, or for none that is known."""
    for _, files in _abandoned():
        for one in files:
            if one.found is None or one.problem or one.found.head.origin.using == using:
                yield one


def _homes(root: str) -> list[Path]:
    """The directories of buffers; none where there is no such directory.

    Raises:
        OSError: no process may look there, or it is no directory.
    """
    with suppress(FileNotFoundError):
        # The names begin with a time.
        return [Path(root, name) for name in sorted(os.listdir(root)) if _HOME.fullmatch(name)]
    return []


def _abandoned() -> Iterator[tuple[Path | None, list[Left]]]:
    """Each directory whose process has ended, and its files: no other process has it meanwhile.

    None, and the text in its place: a directory that cannot be opened.
    """
    for root in directories():
        try:
            homes = _homes(root)
        except OSError as problem:
            yield None, [Left(Path(root), None, str(problem))]
            continue
        for home in homes:
            yield from _abandoned_one(home)


def _abandoned_one(home: Path) -> Iterator[tuple[Path | None, list[Left]]]:
    try:
        with entered(home) as is_ours:
            if is_ours:
                yield home, list(_files(home))
    except OSError as problem:
        # It was removed just now, or it is not known whether another user's process still lives.
        if not isinstance(problem, FileNotFoundError) and _is_own(home):
            yield None, [Left(home, None, str(problem))]


def _is_own(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _adopt_files(files: list[Left], using: str | None, report: Adopted) -> Adopted:
    landed = report.files
    for one in files:
        if one.found is None or one.problem:
            report.strange[str(one.path)] = one.problem
            if one.bars:
                break
            continue
        if using not in (None, one.found.head.origin.using):
            break
        try:
            _land(one.found)
            one.path.unlink(missing_ok=True)
        except Exception as error:
            # Any error: the files of other processes can be landed.
            report.failed[str(one.path)] = str(error).strip() or repr(error)
            break
        landed += 1
    return report._replace(files=landed)


def _files(home: Path) -> Iterator[Left]:
    names = sorted(filter(_FILE.fullmatch, os.listdir(home)), key=int)
    for path in (home / name for name in names):
        try:
            found = read(path)
            yield Left(path, found, _stranger(found.head.origin), bars=True)
        except (Foreign, FileNotFoundError) as problem:
            # No process will ever land it, so no process has to wait for it.
            yield Left(path, None, str(problem))
        except (Unreadable, OSError) as problem:
            yield Left(path, None, str(problem), bars=True)


def _stranger(origin: Origin) -> str:
    """Why what is of this origin cannot be landed here; empty where it can."""
    if origin.using not in connections:
        return f"it is of a database {origin.using!r}, which is not declared"
    if origin.part != part_of(origin.using):
        return f"it is of another database {origin.using!r}"
    try:
        _recipe(origin)
    except (KeyError, ValueError, TypeError):
        return f"it is of a strategy {origin.strategy!r}, which no buffer is in front of"
    return ""


def _recipe(origin: Origin) -> Recipe:
    declared = strategies()[origin.strategy].recipe()
    if declared.can.outside or declared.can.entries:
        raise ValueError(origin.strategy)
    if dict(declared.options).keys() != origin.options.keys():
        raise ValueError(origin.options)
    return declared.but(**origin.options)


def _land(found: Found) -> None:
    """Land it as its process would have: in the same pages, under the same numbers."""
    head = found.head
    lander = InDatabase(_recipe(head.origin), head.origin.using)
    place = Place(head.incarnation, head.number, head.made)
    for page in Sealed(found.entries, place, lander.size):
        lander.land(page)


def _tidy(home: Path) -> None:
    """Remove what was not begun, and the directory if nothing is left in it."""
    with suppress(OSError):
        for name in os.listdir(home):
            if _HIDDEN.fullmatch(name):
                (home / name).unlink(missing_ok=True)
        home.rmdir()
