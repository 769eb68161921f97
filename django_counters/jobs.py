"""The periodic work: `JOBS` of this package, and those of other apps, each with its interval."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from django.conf import settings
from django.db import Error
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_counters import clock
from django_counters.access import UPKEEP
from django_counters.errors import CounterError, InvalidConfiguration
from django_counters.features import Done, Job, absent_app
from django_counters.options import did_you_mean
from django_counters.tables.schema import COUNTERS
from django_counters.upkeep import OWN, attempted

logger = logging.getLogger("django_counters")
SETTING = "COUNTERS_UPKEEP"
_WORK = "django_counters.management.work."
_DAY = 86_400.0
# Milliseconds. Clocks of servers differ by less.
_AHEAD = 60_000
JOBS = (
    Job("rollup", 60, f"{_WORK}rollup", _("fold shards, slots and entries into the totals")),
    Job("prune", 3600, f"{_WORK}prune", _("delete expired rows")),
    Job("verify", _DAY, f"{_WORK}verify", _("compare values with what they are made of")),
    Job(
        "audit",
        _DAY,
        "django_counters.adjustments.command.audit",
        _("compare all adjustments with their digests"),
    ),
)


def jobs(failed: dict[str, str] | None = None) -> dict[str, Job]:
    """Return the jobs of this project by name, with the intervals of ``COUNTERS_UPKEEP``.

    Those of an app that fails to declare them are left out; its error is put into ``failed``.

    Raises:
        InvalidConfiguration: the setting is wrong.
    """
    for problem in upkeep_problems():
        raise InvalidConfiguration(problem=problem)
    every = getattr(settings, SETTING, {})
    # None switches a job off.
    declared = _declared({} if failed is None else failed)
    present = (job for _app, job in declared if every.get(job.name, job.every) is not None)
    return {job.name: job._replace(every=every.get(job.name, job.every)) for job in present}


def _declared(failed: dict[str, str]) -> list[tuple[str, Job]]:
    """Return all jobs, each with its app; put the errors of apps into ``failed``."""
    of_apps = attempted("", lambda feature: [*feature.jobs()], failed)
    pairs = [("django_counters", JOBS), *of_apps]
    # Flush first: increments that arrive are folded by the same run.
    pairs.sort(key=lambda pair: pair[0] not in OWN)
    declared = [(app, job) for app, jobs in pairs for job in jobs]
    # Those of the machine first: increments that arrive are folded by the same run.
    return sorted(declared, key=lambda pair: not pair[1].local)


def unknown(name: object, known: Iterable[str]) -> str:
    """Return why there is no such job, and what to do."""
    if app := absent_app(lambda feature: name in [job.name for job in feature.jobs()]):
        return f"{name!r} needs {app} in INSTALLED_APPS."
    return f"There is no job {name!r}.{did_you_mean(name, tuple(known))}"


def upkeep_problems() -> Iterator[str]:
    """Say what is wrong with ``COUNTERS_UPKEEP``."""
    names: dict[str, list[str]] = {}
    failed: dict[str, str] = {}
    for app, job in _declared(failed):
        names.setdefault(job.name, []).append(app)
    declared = getattr(settings, SETTING, {})
    if not isinstance(declared, Mapping):
        yield f"{SETTING} is a dictionary of seconds, such as {{'rollup': 30}}."
        return
    for name, owners in names.items():
        if len(owners) > 1:
            yield f"{' and '.join(owners)} have a job {name!r}. Rename that of your app."
    for name, seconds in declared.items():
        if name not in names:
            # It may be one of an app that failed.
            yield from () if failed else (f"{SETTING}: {unknown(name, names)}",)
        elif seconds is not None and not (
            type(seconds) in (int, float) and 0 < seconds <= 366 * _DAY
        ):
            yield f"{SETTING}: {name} is None or a number of seconds above 0, not {seconds!r}."


def run(
    using: str, names: Sequence[str] = (), *, due: bool = False
) -> Iterator[tuple[Job, Done | Exception]]:
    """Run all jobs, or those in ``names``, once; yield each with its result or error.

    An error in one job doesn't stop the others. An app that fails to declare its jobs is the last
    result of a run of all. Several processes may run this at once.

    Args:
        using: the database.
        names: which jobs; all, if empty.
        due: leave out jobs that some process has begun within their interval.
    """
    failed: dict[str, str] = {}
    for name, job in jobs(failed).items():
        if names and name not in names:
            continue
        claim = None
        done: Done | Exception
        try:
            if due and (claim := _claimed(job, using)) is None:
                continue
            done = job.run(using)
        except Exception as error:
            done = error
        if claim is not None and (isinstance(done, Exception) or done.retry):
            _give_back(job, using, claim)
        yield job, done
    for app, reason in failed.items() if not names else ():
        text = f"{app} failed: {reason}"
        yield Job(app, 0, "", ""), Done(text, {}, [text])


def do(using: str, names: Sequence[str] = (), *, due: bool = False) -> dict[str, Any]:
    """Run jobs for a task queue. Return the data of each job, and log its problems.

    Raises:
        ExceptionGroup: the errors of jobs, after all others were done.
    """
    results: dict[str, Any] = {}
    errors: list[Exception] = []
    for job, done in run(using, names, due=due):
        if isinstance(done, Exception):
            errors.append(done)
            continue
        results[job.name] = done.data
        for problem in done.problems:
            logger.error("Upkeep, %s of the database %s: %s", job.name, using, problem)
    if errors:
        raise ExceptionGroup("Upkeep failed.", errors)
    return results


class _Claim(NamedTuple):
    """When this process has begun a job, and the process before it; in milliseconds."""

    begun: int
    before: int


def _claimed(job: Job, using: str) -> _Claim | None:
    """Begin a job, unless some process has begun it within its interval.

    The counter ``counters.upkeep:NAME`` has this time. A job of the machine always begins, because
    other machines have that job, too.
    """
    if job.local or not COUNTERS.stands_in(using):
        return _Claim(0, 0)
    now = clock.utc()
    begun = int(now.timestamp() * 1000)
    rows = COUNTERS.rows(using).filter(key=f"{UPKEEP}:{job.name}")
    # A little less than the interval: the next call may come a moment early. A time in the future
    # is of a clock that was wrong.
    is_over = Q(value__lte=begun - int(job.every * 900)) | Q(value__gt=begun + _AHEAD)
    # Each statement is a transaction of its own: together, they could wait for each other.
    before = rows.filter(is_over).values_list("value", flat=True).first()
    if before is None:
        if rows.exists():
            return None
        # Of two processes that are the first, one makes the row.
        row = COUNTERS.model(key=f"{UPKEEP}:{job.name}", updated_at=now)
        COUNTERS.rows(using).bulk_create([row], ignore_conflicts=True)
        before = 0
    changed = rows.filter(value=before).update(value=begun, updated_at=now)
    return _Claim(begun, before) if changed else None


def _give_back(job: Job, using: str, claim: _Claim) -> None:
    """Let the next call repeat a failed job; the database keeps the claim if it is unavailable."""
    if claim.begun:
        with suppress(Error, CounterError):
            rows = COUNTERS.rows(using).filter(key=f"{UPKEEP}:{job.name}", value=claim.begun)
            rows.update(value=claim.before)
