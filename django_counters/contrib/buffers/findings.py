"""Findings and metrics of buffers, and the job that flushes the files of ended processes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext as _

from django_counters import clock
from django_counters.contrib.buffers.adopting import adopt, directories, left
from django_counters.contrib.buffers.files import FileContents
from django_counters.contrib.buffers.process import buffers
from django_counters.features import Done, Finding, Gauge, GaugeValue

_MOST_SHOWN = 20
BUFFERED = Gauge(
    "django_counters_buffered_amount",
    "How much waits in buffers of the process that was scraped, up and down together.",
    ("strategy",),
)
BUFFER_AGE = Gauge(
    "django_counters_buffer_age_seconds",
    "For how long something waits there at most; 0 where nothing does.",
    ("strategy",),
)
LEFT_FILES = Gauge(
    "django_counters_left_files",
    "How many files of buffers wait on this machine whose processes have ended.",
)
GAUGES = (BUFFERED, BUFFER_AGE, LEFT_FILES)


def flush_files(using: str) -> Done:
    """Flush the files of buffers on this machine whose processes have ended."""
    report = adopt(using)
    remaining = {**report.strange, **report.failed}
    shown = [f"{path}: {problem}" for path, problem in remaining.items()][:_MOST_SHOWN]
    problems = [f"{len(remaining)} files are left: {'; '.join(shown)}"] if remaining else []
    data = {"database": using, **report._asdict()}
    return Done(f"{report.files} files landed", data, problems)


def local_findings(using: str) -> Iterator[Finding | GaugeValue]:
    """Return the buffers of this process, and the files of ended processes on this machine."""
    waiting = buffers.waiting(using)
    for key, waits in waiting:
        if waits.entries:
            # Other processes report their own.
            late = waits.age > clock.LATE.total_seconds()
            never = _("it could not be landed for %(minutes)d minutes: the log says why")
            action = never % {"minutes": clock.LATE // timedelta(minutes=1)} if late else ""
            told = "buffer of this process", key.recipe.strategy, 0, waits.entries, action
            yield Finding(*told, needed=late, lag=round(waits.age, 3))
    for key, buffer in buffers.those_of(using):
        if buffer.files is not None and buffer.files.failing:
            none = _("it has no file, and is lost if the process is killed: the log says why")
            strategy = key.recipe.strategy
            yield Finding("buffer of this process", strategy, 0, 0, none, needed=True)
    for strategy in dict.fromkeys(key.recipe.strategy for key, waits in waiting):
        some = [waits for key, waits in waiting if key.recipe.strategy == strategy]
        yield GaugeValue(BUFFERED, (strategy,), sum(waits.amount for waits in some))
        yield GaugeValue(BUFFER_AGE, (strategy,), max(waits.age for waits in some))
    if directories():
        yield from _of_files(using)


def _of_files(using: str) -> Iterator[Finding | GaugeValue]:
    """Return the files that wait for a process to flush them, and those that can't be flushed."""
    some, readable = list(left(using)), dict[str, list[FileContents]]()
    for one in some:
        if one.found is None or one.problem:
            why = _("it cannot be landed: %(why)s") % {"why": one.problem}
            yield Finding(str(one.path), "", 0, 0, why, needed=True)
        else:
            readable.setdefault(one.found.head.origin.strategy, []).append(one.found)
    yield GaugeValue(LEFT_FILES, (), len(some))
    for strategy, files in readable.items():
        age = max(clock.utc() - one.head.made for one in files)
        command = "manage.py counters upkeep buffers" if age > clock.LATE else ""
        never = _("nothing has landed for %(minutes)d minutes: does %(command)s run?")
        told = {"minutes": clock.LATE // timedelta(minutes=1), "command": command}
        yield Finding(
            *("files of buffers", strategy, len(files), sum(len(one.entries) for one in files)),
            never % told if command else "",
            needed=bool(command),
            lag=round(age.total_seconds(), 3),
            command=command,
        )
