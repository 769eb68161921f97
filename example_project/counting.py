"""Counts the lines of an access log with many processes at once.

A new process imports this before it has settings, so nothing here imports a model at the top.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter as Sums
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.utils import timezone

from django_counters import short_key
from example_project.access_log import Entry, Part, lines_of, parse, split

LINES_AT_ONCE = 2000
BYTES_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Counted:
    """What was read; the counts themselves are in the database.

    Attributes:
        replayed: how many lines an earlier run had counted, so that this one did not.
        shortened: full text to stored key, for those that are no keys themselves.
    """

    lines: int
    malformed: int
    shortened: Mapping[str, str]
    replayed: int = 0

    @property
    def counted(self) -> int:
        """How many lines were counted."""
        return self.lines - self.malformed - self.replayed


@dataclass(frozen=True)
class Way:
    """A way to count a file.

    Attributes:
        parts: what to do at once, of a file of so many bytes by so many processes.
        count: counts a part; other processes do that, so it has to be importable.
    """

    parts: Callable[[int, int], list[Part]]
    count: Callable[[Path, Part], Counted]


def count_file(
    path: Path,
    workers: int,
    way: Way,
    progress: Callable[[float], None] = lambda _: None,
) -> Counted:
    """Count all lines of a file with this many processes.

    An error of any of them is raised here. What was counted before it stays counted.
    """
    size = path.stat().st_size
    done: list[Counted] = []
    for part, one in _counts(partial(way.count, path), way.parts(size, workers), workers):
        done.append(one)
        progress((min(part.end, size) - part.start) / size)
    return Counted(
        lines=sum(one.lines for one in done),
        malformed=sum(one.malformed for one in done),
        shortened={full: key for one in done for full, key in one.shortened.items()},
        replayed=sum(one.replayed for one in done),
    )


def _counts(
    count: Callable[[Part], Counted], parts: Sequence[Part], workers: int
) -> Iterator[tuple[Part, Counted]]:
    if workers == 1 or len(parts) < 2:
        for part in parts:
            yield part, count(part)
        return
    with ProcessPoolExecutor(
        min(workers, len(parts)),
        multiprocessing.get_context("spawn"),
        initializer=_join_parent,
        initargs=(os.environ["DJANGO_SETTINGS_MODULE"], connection.settings_dict["NAME"]),
    ) as pool:
        jobs = {pool.submit(count, part): part for part in parts}
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        except BaseException as error:
            # After an error nobody goes on counting; who interrupts does not want to wait.
            pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
            raise


def _join_parent(settings_module: str, database: object) -> None:
    """Prepare a new process: the settings and the database of its parent."""
    import django

    # The parent hears Ctrl-C too, and lets us finish what we are counting.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["DJANGO_SETTINGS_MODULE"] = settings_module
    settings.DATABASES["default"]["NAME"] = database
    django.setup()


def _end_with_parent() -> None:
    """A parent that is killed cannot tell its children to end; they would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)


def count_part(path: Path, part: Part) -> Counted:
    """Count the lines that begin in a part: one statement for each day of 2 000 of them."""
    from django_counters.models import Counter

    lines = malformed = 0
    shortened: dict[str, str] = {}
    every_line = lines_of(path, part)
    while chunk := list(islice(every_line, LINES_AT_ONCE)):
        entries = [entry for entry in map(parse, chunk) if entry]
        for day, sums in by_day(entries).items():
            keys = {full: short_key(full) for full in sums}
            deltas = {keys[full]: number for full, number in sums.items()}
            Counter.objects.increment_many(deltas, at=happened(day))
            shortened |= {full: key for full, key in keys.items() if full != key}
        lines += len(chunk)
        malformed += len(chunk) - len(entries)
    return Counted(lines, malformed, shortened)


def by_day(entries: Iterable[Entry]) -> dict[datetime, Sums[str]]:
    """What is counted of lines, for each day of theirs."""
    days: dict[datetime, Sums[str]] = {}
    for entry in entries:
        days.setdefault(entry.day, Sums()).update(entry.counters())
    return days


def happened(day: datetime) -> datetime:
    """When to count what is of a day; the clock of whoever wrote the log may be ahead."""
    return min(day, timezone.now())


def _parts(size: int, workers: int) -> list[Part]:
    return split(size, max(workers, size // BYTES_AT_ONCE))


EVERY_TIME = Way(_parts, count_part)
