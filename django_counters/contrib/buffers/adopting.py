"""Flushes the files of ended processes. Any number of processes can do so concurrently."""

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
from django_counters.contrib.buffers import files
from django_counters.contrib.buffers.pages import InDatabase, SealedInterval, Serial
from django_counters.registry import registry
from django_counters.stores.sql.session import part_of
from django_counters.strategies.declaring import Recipe

logger = logging.getLogger("django_counters")
# The names of directories that are ours, with a dot before they are locked, and of files.
_HOME, _FILE, _HIDDEN = (
    re.compile(rule) for rule in (r"\.?[0-9a-f]{32}", r"[0-9]{16,}", r"\.[0-9]{16,}")
)


class Adopted(NamedTuple):
    """The result of an adoption.

    Attributes:
        files: how many were flushed and removed.
        strange: files that can't be flushed here, and why. They are left alone.
        failed: files that couldn't be flushed yet, and why.
    """

    files: int
    strange: dict[str, str]
    failed: dict[str, str]


class LeftFile(NamedTuple):
    """A file of an ended process, or something else at its path.

    Attributes:
        path: where it is.
        found: its contents; None if they can't be read.
        problem: why it can't be flushed here; empty if it can.
        bars: whether later files in the same directory must wait for it.
    """

    path: Path
    found: files.FileContents | None
    problem: str = ""
    bars: bool = False


def directories() -> list[str]:
    """Return the directories that namespaces declare."""
    declared = (policy.options.get("buffer") for policy in registry.policies().values())
    return sorted({one["directory"] for one in declared if one and one.get("directory")})


def adopt(using: str | None = None) -> Adopted:
    """Flush the files of ended processes, each once, and remove them.

    The files of a process are flushed in the order of their numbers. Call it again for files that
    failed.

    Args:
        using: the database; None for all.
    """
    report = Adopted(0, {}, {})
    for home, found in _abandoned():
        report = _adopt_files(found, using, report)
        if home is not None:
            # Without unfinished files, and if it is empty then.
            with suppress(OSError):
                for name in filter(_HIDDEN.fullmatch, os.listdir(home)):
                    (home / name).unlink(missing_ok=True)
                home.rmdir()
    return report


def left(using: str) -> Iterator[LeftFile]:
    """Yield the files that ended processes left for a database, or for an unknown one."""
    for _, found in _abandoned():
        for one in found:
            if one.found is None or one.problem or one.found.head.origin.using == using:
                yield one


def _homes(root: str) -> list[Path]:
    """Return the directories of buffers; none if the root is missing.

    Raises:
        OSError: it can't be listed, or isn't a directory.
    """
    with suppress(FileNotFoundError):
        # The names begin with a time.
        return [Path(root, name) for name in sorted(os.listdir(root)) if _HOME.fullmatch(name)]
    return []


def _abandoned() -> Iterator[tuple[Path | None, list[LeftFile]]]:
    """Yield each directory of an ended process, and its files. It is locked meanwhile.

    For a directory that can't be opened, yield None and its problem.
    """
    for root in directories():
        try:
            homes = _homes(root)
        except OSError as problem:
            yield None, [LeftFile(Path(root), None, str(problem))]
            continue
        for home in homes:
            yield from _abandoned_one(home)


def _abandoned_one(home: Path) -> Iterator[tuple[Path | None, list[LeftFile]]]:
    try:
        with files.entered(home) as is_ours:
            if is_ours:
                yield home, list(_files(home))
    except OSError as problem:
        # It was removed just now, or it is not known whether another user's process still lives.
        if not isinstance(problem, FileNotFoundError) and _is_own(home):
            yield None, [LeftFile(home, None, str(problem))]


def _is_own(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _adopt_files(found: list[LeftFile], using: str | None, report: Adopted) -> Adopted:
    landed = report.files
    for one in found:
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


def _files(home: Path) -> Iterator[LeftFile]:
    names = sorted(filter(_FILE.fullmatch, os.listdir(home)), key=int)
    for path in (home / name for name in names):
        try:
            found = files.read(path)
            yield LeftFile(path, found, _stranger(found.head.origin), bars=True)
        except (files.Foreign, FileNotFoundError) as problem:
            # No process will ever land it, so no process has to wait for it.
            yield LeftFile(path, None, str(problem))
        except (files.Unreadable, OSError) as problem:
            yield LeftFile(path, None, str(problem), bars=True)


def _stranger(origin: files.Origin) -> str:
    """Return why a file of this origin can't be flushed here; empty if it can."""
    if origin.using not in connections:
        return f"it is of a database {origin.using!r}, which is not declared"
    if origin.part != part_of(origin.using):
        return f"it is of another database {origin.using!r}"
    try:
        _recipe(origin)
    except (KeyError, ValueError, TypeError):
        return f"it is of a strategy {origin.strategy!r}, which no buffer is in front of"
    return ""


def _recipe(origin: files.Origin) -> Recipe:
    declared = strategies()[origin.strategy].recipe()
    if declared.can.outside or declared.can.entries:
        raise ValueError(origin.strategy)
    if dict(declared.options).keys() != origin.options.keys():
        raise ValueError(origin.options)
    return declared.but(**origin.options)


def _land(found: files.FileContents) -> None:
    """Flush a file as its process would have: in the same pages, under the same numbers."""
    head = found.head
    lander = InDatabase(_recipe(head.origin), head.origin.using)
    serial = Serial(head.incarnation, head.number, head.made)
    for page in SealedInterval(found.entries, serial, lander.size):
        lander.land(page)
