"""``manage.py counters``: upkeep, and a look at what is there."""

from __future__ import annotations

import json
import time
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import (
    DEFAULT_DB_ALIAS,
    InterfaceError,
    OperationalError,
    close_old_connections,
    connections,
)
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_counters import exceptions as errors
from django_counters.adjustments.cases import AdjustedMany
from django_counters.intake.flush import Report as Flushed
from django_counters.intake.flush import flush
from django_counters.management import adjusting, consuming, examining, regions, top
from django_counters.management.looping import until_asked_to_end
from django_counters.upkeep.audit import Anchor, verify_audit
from django_counters.upkeep.forgetting import forget_actor
from django_counters.upkeep.holds import expire_holds
from django_counters.upkeep.ledger import rebase
from django_counters.upkeep.partitions import maintain
from django_counters.upkeep.partitions import plan as planned
from django_counters.upkeep.prune import prune_all
from django_counters.upkeep.recording import record_history
from django_counters.upkeep.rollup import Report, rollup
from django_counters.upkeep.verify import verify
from django_counters.write.adopting import adopt

_WORK = {
    "flush": gettext_noop("land what waits in Redis in the totals"),
    "consume": gettext_noop("count the messages of a stream"),
    "buffers": gettext_noop("land the files of buffers whose processes have ended"),
    "publish": gettext_noop("let other regions copy what this one has counted"),
    "pull": gettext_noop("copy what other regions have counted"),
    "regions": gettext_noop("say how old copies of regions are, or look after a restored one"),
    "rollup": gettext_noop("fold shards, slots and entries into the totals"),
    "partitions": gettext_noop("make, seal and drop partitions of the ledger"),
    "verify": gettext_noop("compare the ledger with its entries, and counts of actors with them"),
    "adjust": gettext_noop("adjust many counters, as a file says"),
    "verify-audit": gettext_noop("compare all adjustments with their digests"),
    "forget-actor": gettext_noop("forget a person: who it was that counted, and what"),
    "rebase": gettext_noop("compute the totals of the ledger anew, after a restore"),
    "history": gettext_noop("record the totals of namespaces that ask for it"),
    "expire": gettext_noop("give back what is held beyond its time"),
    "prune": gettext_noop("forget tokens, landed generations and samples that are old enough"),
    "doctor": gettext_noop("say whether counters are healthy, and list the work to do"),
    "top": gettext_noop("show the counters that change most, again and again"),
}
# Their messages say what to do, without a traceback.
_EXPLAINED = (
    errors.LedgerFenced,
    errors.InvalidActor,
    errors.InvalidAdjustment,
    errors.InvalidKey,
    errors.RecordMissing,
    errors.UnsupportedHold,
    errors.InvalidConfiguration,
    errors.CounterUnavailable,
    errors.OutcomeUnknown,
    errors.StreamPoisoned,
    errors.RegionAway,
    errors.RegionRestored,
)
# The database is away for a moment; a loop goes on when it is back.
_PASSING = (OperationalError, InterfaceError, errors.ReadOnlyDatabase)
_MOST_SHOWN = 20
# Seconds between two lines of progress in a log.
_EVERY = 10.0


class Command(BaseCommand):
    """One command, with a sub-command for each kind of work."""

    help = _("Looks after counters.")
    # The doctor reports problems of the settings itself.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        subs = parser.add_subparsers(dest="work", required=True, metavar="|".join(_WORK))
        sub = {
            work: subs.add_parser(work, help=_(text), parents=[_common()])
            for work, text in _WORK.items()
        }
        sub["flush"].add_argument(
            "--loop", type=_seconds, metavar="SECONDS", help=_("again every so many seconds")
        )
        sub["flush"].add_argument(
            "--adopt",
            action="store_true",
            help=_("this database has taken the place of the one that was flushed to before"),
        )
        sub["rollup"].add_argument(
            "--dry-run", action="store_true", help=_("count what waits, no more")
        )
        sub["partitions"].add_argument(
            "--plan", action="store_true", help=_("say what has to be done, no more")
        )
        sub["verify"].add_argument("--namespace", help=_("only its counters"))
        sub["verify"].add_argument("--sample", type=int, help=_("only so many counters"))
        sub["verify"].add_argument(
            "--stock",
            action="append",
            type=_stock,
            default=[],
            metavar="COUNTER=NUMBER",
            help=_("the available, held and sold quantity of a counter together; may be repeated"),
        )
        sub["verify-audit"].add_argument(
            "--anchor",
            type=_anchor,
            metavar="NUMBER:DIGEST",
            help=_("the head of an earlier run, kept elsewhere"),
        )
        sub["forget-actor"].add_argument("who", help=_("as increments have named the person"))
        sub["forget-actor"].add_argument(
            "--counts",
            choices=("correct", "keep"),
            default="correct",
            help=_("take back what the person counts, or keep it under random names"),
        )
        sub["forget-actor"].add_argument(
            "--dry-run", action="store_true", help=_("say what there is, no more")
        )
        adjusting.add_arguments(sub["adjust"])
        consuming.add_arguments(sub["consume"], _seconds)
        examining.add_arguments(sub["doctor"])
        regions.add_arguments(sub["regions"])
        top.add_arguments(sub["top"], _seconds)

    def handle(self, *_args: Any, **options: Any) -> None:
        using = options["database"]
        if using not in connections:
            raise CommandError(f"There is no database {using!r}.")
        work: Any = getattr(self, f"_{options['work'].replace('-', '_')}")
        try:
            work(using, **options)
        except _EXPLAINED as error:
            raise CommandError(str(error)) from error

    def _print(self, as_json: bool, data: object, text: str) -> None:
        self.stdout.write(json.dumps(data, default=str) if as_json else text)

    def _progress(self, text: str = "") -> None:
        """Replace the line of progress on a terminal; without a text, clear it."""
        if self.stderr.isatty():
            self.stderr.write(f"\r\x1b[K{text}", ending="")

    def _flush(
        self, using: str, *, loop: float | None, adopt: bool, as_json: bool, **_: Any
    ) -> None:
        if loop is not None:
            if adopt:
                raise CommandError("--adopt is done once, without --loop.")
            self._flush_on(using, loop, as_json=as_json)
            return
        report = self._flushed(using, alone=False, adopt=adopt)
        self._say(using, report, as_json=as_json)
        problems = list(_problems(report))
        if problems:
            raise CommandError("; ".join(problems))

    def _flush_on(self, using: str, every: float, *, as_json: bool) -> None:
        with until_asked_to_end() as wait:
            due = time.monotonic()
            while wait(due - time.monotonic()):
                due = time.monotonic() + every
                # The server may have restarted, or the connection may be old.
                close_old_connections()
                try:
                    report = self._flushed(using, alone=True)
                except _PASSING as error:
                    self.stderr.write(str(error).strip())
                    continue
                if as_json or report.generations or report.busy:
                    self._say(using, report, as_json=as_json)
                for problem in _problems(report):
                    self.stderr.write(problem)

    def _flushed(self, using: str, *, alone: bool, adopt: bool = False) -> Flushed:
        landed = 0

        def step(name: str) -> None:
            nonlocal landed
            landed += name == "acknowledged"
            self._progress(f"{landed} transactions done, {name}")

        try:
            return flush(using, alone=alone, adopt=adopt, step=step)
        finally:
            self._progress()

    def _say(self, using: str, report: Flushed, *, as_json: bool) -> None:
        parts = (
            f"{report.counters} counters changed by {report.generations} generations",
            f"busy: {', '.join(report.busy)}" if report.busy else "",
            f"flushed elsewhere: {', '.join(report.elsewhere)}" if report.elsewhere else "",
        )
        self._print(as_json, {"database": using, **asdict(report)}, "; ".join(filter(None, parts)))
        # The log of a loop is read while it runs.
        self.stdout.flush()

    def _buffers(self, using: str, *, as_json: bool, **_: Any) -> None:
        report = adopt(using)
        data = {"database": using, **report._asdict()}
        self._print(as_json, data, f"{report.files} files landed")
        problems = {**report.strange, **report.failed}
        if problems:
            shown = [f"{path}: {problem}" for path, problem in problems.items()][:_MOST_SHOWN]
            raise CommandError(f"{len(problems)} files are left: {'; '.join(shown)}")

    def _publish(self, using: str, **options: Any) -> None:
        regions.run_publish(self.stdout, using, **options)

    def _pull(self, using: str, **options: Any) -> None:
        regions.run_pull(self.stdout, using, **options)

    def _regions(self, using: str, **options: Any) -> None:
        regions.run(self.stdout, using, **options)

    def _rollup(self, using: str, *, dry_run: bool, as_json: bool, **_: Any) -> None:
        def progress(label: str, report: Report) -> None:
            self._progress(f"{label}: {report.rows + report.entries} rows folded")

        report = rollup(using, dry_run=dry_run, progress=progress)
        self._progress()
        if dry_run:
            text = f"{report.left} rows and {report.waiting} entries wait for their rollup"
            text += f", and {report.members} actors for their sets" if report.members else ""
        else:
            text = (
                f"{report.rows} rows folded, {report.orphans} without a record dropped, "
                f"{report.left} left; {report.entries} entries folded, {report.waiting} left"
            )
            text += f"; {report.members} actors put into their sets" if report.members else ""
        self._print(as_json, {"database": using, "dry_run": dry_run, **asdict(report)}, text)
        if report.stuck:
            stuck = ", ".join(report.stuck)
            raise CommandError(f"These do not fit, or have no possible record: {stuck}")

    def _partitions(self, using: str, *, plan: bool, as_json: bool, **_: Any) -> None:
        if plan:
            steps = [(step.verb, *step.extent) for step in planned(using)]
            lines = [
                f"{verb} {name or 'a partition'} from {since} to {until}"
                for verb, name, since, until in steps
            ]
            self._print(as_json, steps, "\n".join(lines) or "Nothing has to be done.")
            return
        report = maintain(using)
        parts = (
            f"{len(report.created)} made",
            f"{len(report.sealed)} sealed",
            f"{len(report.dropped)} dropped",
            f"{len(report.busy)} busy" if report.busy else "",
            f"{report.forgotten} entries deleted" if report.forgotten else "",
        )
        self._print(as_json, {"database": using, **asdict(report)}, ", ".join(filter(None, parts)))
        if report.failed:
            raise CommandError(f"{len(report.failed)} steps failed: {'; '.join(report.failed)}")

    def _verify(
        self,
        using: str,
        *,
        namespace: str | None,
        sample: int | None,
        stock: list[tuple[str, int]],
        as_json: bool,
        **_: Any,
    ) -> None:
        report = verify(using, namespace=namespace, sample=sample, stocks=dict(stock))
        drifts = [drift._asdict() for drift in report.drifts]
        text = f"{report.checked} counters and {report.partitions} sealed partitions checked"
        if report.measures:
            text = f"{text}; {report.measures} kinds of counters compared with their actors"
        if report.stocks:
            text = f"{text}; {report.stocks} stocks compared"
        self._print(as_json, {"database": using, **asdict(report), "drifts": drifts}, text)
        if drifts:
            shown = [f"{d.key}: {d.found}, not {d.expected}" for d in report.drifts[:_MOST_SHOWN]]
            raise CommandError(f"{len(drifts)} are not what they should be: {', '.join(shown)}")

    def _verify_audit(self, using: str, *, anchor: Anchor | None, as_json: bool, **_: Any) -> None:
        report = verify_audit(using, anchor=anchor)
        head = f"; head {report.head}" if report.head else ""
        kept = f"; compared with {report.kept}" if report.kept else ""
        text = f"{report.checked} adjustments checked{head}{kept}"
        self._print(as_json, {"database": using, **report.as_data()}, text)
        if report.flaws:
            shown = ", ".join(map(str, report.flaws[:_MOST_SHOWN]))
            raise CommandError(f"{len(report.flaws)} places are not as they were: {shown}")

    def _adjust(self, using: str, **options: Any) -> None:
        quiet = options["as_json"] or not options["verbosity"]
        try:
            adjusting.run(self.stdout, None if quiet else self._told(), using, **options)
        finally:
            self._progress()

    def _told(self) -> Callable[[AdjustedMany], None]:
        """Shows the progress on a terminal, or now and then in a log."""
        due = time.monotonic() + _EVERY

        def tell(report: AdjustedMany) -> None:
            nonlocal due
            done = f"{len(report.changes) + report.done + len(report.refused)} looked at"
            self._progress(done)
            if not self.stderr.isatty() and time.monotonic() >= due:
                self.stderr.write(done)
                due = time.monotonic() + _EVERY

        return tell

    def _forget_actor(
        self, using: str, *, who: str, counts: str, dry_run: bool, as_json: bool, **_: Any
    ) -> None:
        found = forget_actor(who, using, keep_counts=counts == "keep", dry_run=dry_run)
        told = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in found.items())
        text = f"would be: {told}" if dry_run else told
        self._print(as_json, {"database": using, "dry_run": dry_run, **found}, text)

    def _rebase(self, using: str, *, as_json: bool, **_: Any) -> None:
        changed = rebase(using)
        self._print(as_json, {"changed": changed}, f"{changed} totals changed")

    def _history(self, using: str, *, as_json: bool, **_: Any) -> None:
        recorded = record_history(using)
        data = {"database": using, "recorded": recorded}
        self._print(as_json, data, f"{recorded} totals recorded")

    def _expire(self, using: str, *, as_json: bool, **_: Any) -> None:
        ended = expire_holds(using)
        data = {"database": using, "expired": ended}
        self._print(as_json, data, f"{ended} holds given back")

    def _prune(self, using: str, *, as_json: bool, **_: Any) -> None:
        gone = prune_all(using)
        text = (
            f"{gone['tokens']} tokens, {gone['generations']} generations, "
            f"{gone['histories']} histories, {gone['samples']} samples, "
            f"{gone['buckets']} buckets, {gone['cells']} cells "
            f"and {gone['holds']} holds forgotten"
        )
        self._print(as_json, gone, text)

    def _doctor(self, using: str, **options: Any) -> None:
        examining.run(self.stdout, using, **options)

    def _consume(self, using: str, **options: Any) -> None:
        consuming.run(self.stdout, self.stderr, using, **options)

    def _top(self, using: str, **options: Any) -> None:
        top.run(self.stdout, using, **options)


def _problems(report: Flushed) -> Iterator[str]:
    """The problems of a flush."""
    for name, reason in report.away.items():
        yield f"{name} was not flushed: {reason}"
    if report.quarantined:
        amounts = [f"{counter}: {by}" for counter, by in report.quarantined.items()]
        shown = ", ".join(amounts[:_MOST_SHOWN])
        yield f"{len(amounts)} could not be landed: {shown}"
    if report.incidents:
        yield f"{len(report.incidents)} incidents: {', '.join(report.incidents[:_MOST_SHOWN])}"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 86_400:
        raise ArgumentTypeError(f"{text!r} is no number of seconds above 0, up to a day")
    return seconds


def _anchor(text: str) -> Anchor:
    try:
        return Anchor.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _stock(text: str) -> tuple[str, int]:
    counter, equals, number = text.rpartition("=")
    if not (counter and equals and number.isascii() and number.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not COUNTER=NUMBER, as in stock:SKU-17=500")
    return counter, int(number)


def _common() -> ArgumentParser:
    """The options of every sub-command: ours, and those of every command of Django.

    The options of Django may also stand before the sub-command, so they have no default behind it.
    """
    common = _Options().create_parser("", "", add_help=False)
    for option in common._actions:
        option.default = SUPPRESS
    common.add_argument("--database", default=DEFAULT_DB_ALIAS, help=_("which database"))
    common.add_argument("--json", action="store_true", dest="as_json", help=_("print one object"))
    return common


class _Options(BaseCommand):
    """The options that Django gives each command."""

    requires_system_checks = ()
