"""What the ledger adds to upkeep, monitoring and commands: see `OWN` in `upkeep`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from django_counters import clock
from django_counters.features import Done, Feature, Finding, Gauge, GaugeValue, Job
from django_counters.ledger.upkeep import State, maintain, rebase, state, too_few
from django_counters.metrics.facts import PERIODS, InflowRate, Part, wrong
from django_counters.metrics.samples import PENDING, ROWS
from django_counters.registry import ledgers
from django_counters.tables.schema import ENTRIES
from django_counters.tokens import milliseconds_of, mint

ROLLUP_LAG = Gauge(
    "django_counters_rollup_lag_seconds",
    "How old the totals of the ledger are: the time since the last rollup that folded it.",
)
FENCED = Gauge(
    "django_counters_ledger_fenced",
    "1 if the ledger came from another server and cannot be rolled up, else 0.",
)
PARTITIONS = Gauge(
    "django_counters_partitions_ahead",
    "How many partitions of the ledger follow the present one without a gap.",
)
# A rate counts no more entries, to be quick on a busy site.
MOST_ENTRIES = 100_000
_DAY = timedelta(days=1)
_COMMAND = "manage.py counters"


class LedgerState(Part):
    """The pending entries, the partitions, and what holds up the rollup."""

    name = "ledger"
    label = gettext_noop("ledger")

    def read(self, using: str) -> Iterator[State]:
        yield state(using)

    def findings(self, state: State) -> Iterator[Finding]:
        waits = ("ledger", "ledger", state.entries, state.counters)
        if state.fenced:
            yield Finding(*waits, state.fenced, needed=True, command=f"{_COMMAND} rebase")
        elif state.entries:
            held = _held_by(state)
            yield Finding(*waits, held, warns=bool(held))
        if ledgers() and too_few(state.partitions_ahead):
            few = _("%(number)s partitions ahead: run %(command)s")
            command, number = f"{_COMMAND} upkeep partitions", state.partitions_ahead
            yield wrong("ledger", "ledger", few, command, number=number)
        if state.locks:
            taken, room = state.locks
            many = _(
                "a read of all partitions takes %(taken)d of %(room)d locks: set retention_days, "
                "or raise max_locks_per_transaction"
            )
            yield wrong("ledger", "ledger", many, taken=taken, room=room)

    def values(self, state: State) -> Iterator[GaugeValue]:
        yield GaugeValue(ROWS, ("ledger",), state.entries)
        yield GaugeValue(PENDING, ("ledger", ""), state.counters)
        yield GaugeValue(FENCED, (), bool(state.fenced))
        if state.lag is not None:
            yield GaugeValue(ROLLUP_LAG, (), state.lag.total_seconds())
        if state.partitions_ahead is not None:
            yield GaugeValue(PARTITIONS, (), state.partitions_ahead)


class EntryRates(Part):
    """How many entries the ledger got, by the time of their tokens."""

    name = "entries"
    label = gettext_noop("entries")
    examined = False

    def read(self, using: str) -> Iterator[tuple[InflowRate, ...]]:
        yield tuple(_rate(minutes, using) for minutes in PERIODS)


class LedgerFeature(Feature):
    """The command, job and metrics of the ledger."""

    commands = {"rebase": __name__}

    def jobs(self) -> Sequence[Job]:
        text = gettext_lazy("make, seal and drop partitions")
        return [Job("partitions", 3600, f"{__name__}.partitions", text)]

    def parts(self) -> Sequence[Part]:
        return [LedgerState(), EntryRates()]

    def gauges(self) -> Sequence[Gauge]:
        return [ROLLUP_LAG, FENCED, PARTITIONS]


LEDGER = LedgerFeature()


def _held_by(found: State) -> str:
    """What holds up the rollup of entries, if anything."""
    if found.holder is None:
        return ""
    what, name, since, does = found.holder
    oldest = _("the oldest %(what)s is %(name)s") % {"what": what, "name": name}
    begun = _("since %(time)s") % {"time": f"{since:%H:%M:%S}"} if since else ""
    who = ", ".join(part for part in (oldest, begun, does) if part)
    if not found.lag:
        return who
    age = _("the totals are %(seconds)d s old") % {"seconds": round(found.lag.total_seconds())}
    return f"{age}; {who}"


def _rate(minutes: int, using: str) -> InflowRate:
    """Count by the tokens' index, which begins with their time, in the last partitions only."""
    now = clock.utc()
    since = now - timedelta(minutes=minutes)
    ends = {"token__gte": _first(since), "token__lt": _first(now + timedelta(milliseconds=1))}
    # A day more, because the column may be in any time zone.
    rows = ENTRIES.rows(using).filter(created_at__gte=clock.shown(since - _DAY), **ends)
    number = rows.order_by().values("token")[: MOST_ENTRIES + 1].count()
    return InflowRate(minutes, min(number, MOST_ENTRIES), capped=number > MOST_ENTRIES)


def _first(moment: datetime) -> UUID:
    """The least token of a millisecond."""
    return UUID(int=milliseconds_of(mint(moment)) << 80)


# The job, and the command ``manage.py counters rebase``.


def partitions(using: str) -> Done:
    """Make, seal and drop partitions of the ledger."""
    report = maintain(using)
    parts = (
        f"{len(report.created)} made",
        f"{len(report.sealed)} sealed",
        f"{len(report.dropped)} dropped",
        f"{len(report.busy)} busy" if report.busy else "",
        f"{report.forgotten} entries deleted" if report.forgotten else "",
    )
    failed = "; ".join(report.failed)
    problems = [f"{len(report.failed)} steps failed: {failed}"] if failed else []
    text = ", ".join(filter(None, parts))
    return Done(text, {"database": using, **asdict(report)}, problems)


HELP = gettext_lazy("compute the totals of the ledger anew, after a restore")


def add_arguments(parser: ArgumentParser) -> None:
    """Add no arguments."""


def handle(command: Any, using: str, *, as_json: bool, **_options: Any) -> None:
    """Compute the totals, and print how many have changed."""
    changed = rebase(using)
    command.show(as_json, {"changed": changed}, f"{changed} totals changed")
