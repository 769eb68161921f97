"""``manage.py counters``: upkeep, and a look at what is there."""

from __future__ import annotations

import json
import logging
import time
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_counters import errors, jobs
from django_counters.adjustments import audit, cases
from django_counters.adjustments import command as adjustments
from django_counters.features import Done, Finding, Job, Verdict, absent
from django_counters.management import work
from django_counters.management.work import PASSING, seconds, turns, until_asked_to_end
from django_counters.metrics.doctor import examine, verdict
from django_counters.upkeep import forget_actor, serving

logger = logging.getLogger("django_counters")
_WORK = {
    "upkeep": gettext_noop("do all periodic work, or some of it"),
    "verify": gettext_noop("compare the ledger with its entries, and counts of actors with them"),
    "adjust": gettext_noop("adjust many counters, as a file says"),
    "audit": gettext_noop("compare all adjustments with their digests"),
    "forget-actor": gettext_noop("forget a person: who it was that counted, and what"),
    "doctor": gettext_noop("say whether counters are healthy, and list the work to do"),
}
# Their messages say what to do, without a traceback.
_EXPLAINED = (
    errors.LedgerFenced,
    errors.LedgerIncomplete,
    errors.InvalidActor,
    errors.InvalidAdjustment,
    errors.InvalidKey,
    errors.RecordMissing,
    errors.InvalidConfiguration,
    errors.CounterUnavailable,
    errors.OutcomeUnknown,
    errors.LandingRefused,
)
# The findings that explain a verdict come first.
_FIRST = (Verdict.ACT, Verdict.WARN, Verdict.OK)
_NEEDS = {Verdict.ACT: "to act on", Verdict.WARN: "to know of"}
# Seconds between two lines of progress in a log.
_EVERY = 10.0


class Command(BaseCommand):
    """One command, with a sub-command for each kind of work."""

    help = _("Looks after counters.")
    # The doctor reports problems of the settings itself.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = "|".join((*_WORK, *_modules()))
        subs = parser.add_subparsers(dest="work", required=True, metavar=names)
        sub = {
            name: subs.add_parser(name, help=_(text), parents=[_common()])
            for name, text in _WORK.items()
        }
        add = sub["upkeep"].add_argument
        add("jobs", nargs="*", metavar="JOB", help=_("only these; --list names them"))
        add("--list", action="store_true", help=_("name the jobs"))
        add("--now", action="store_true", help=_("also jobs that ran within their interval"))
        add("--loop", type=seconds, metavar="SECONDS", help=_("again every so many seconds"))
        add = sub["verify"].add_argument
        add("--namespace", help=_("only its counters"))
        add("--sample", type=int, help=_("only so many counters"))
        head = _("the head of an earlier run, kept elsewhere")
        sub["audit"].add_argument("--anchor", type=_anchor, metavar="NUMBER:DIGEST", help=head)
        add = sub["forget-actor"].add_argument
        add("who", help=_("as increments have named the person"))
        counts = _("take back what the person counts, or keep it under random names")
        add("--counts", choices=("correct", "keep"), default="correct", help=counts)
        add("--dry-run", action="store_true", help=_("say what there is, no more"))
        adjustments.add_arguments(sub["adjust"])
        add = sub["doctor"].add_argument
        every = _("also list facts that need no action")
        add("--all", action="store_true", dest="shows_all", help=every)
        add("--fail", action="store_true", help=_("exit with 1 if something has to be done"))
        for name, module in _modules().items():
            module.add_arguments(subs.add_parser(name, help=module.HELP, parents=[_common()]))
        missing = ((app, name) for app, feature in absent().items() for name in feature.commands)
        for app, name in missing:
            # Nothing is an option here, so that any arguments lead to the line to add.
            bare = subs.add_parser(name, add_help=False, prefix_chars="\0")
            bare.add_argument("arguments", nargs="*")
            bare.set_defaults(database=DEFAULT_DB_ALIAS, app=app)

    def handle(self, *_args: Any, **options: Any) -> None:
        act: Any
        using = options["database"]
        if using not in connections:
            raise CommandError(f"There is no database {using!r}.")
        if app := options.get("app"):
            raise CommandError(f"{options['work']} needs {app!r} in INSTALLED_APPS.")
        if module := _modules().get(options["work"]):
            act = partial(module.handle, self)
        else:
            act = getattr(self, f"_{options['work'].replace('-', '_')}")
        try:
            act(using, **options)
        except _EXPLAINED as error:
            raise CommandError(str(error)) from error

    def show(self, as_json: bool, data: object, text: str) -> None:
        self.stdout.write(json.dumps(data, default=str) if as_json else text)

    def progress(self, text: str = "") -> None:
        """Replace the line of progress on a terminal; without a text, clear it."""
        if self.stderr.isatty():
            self.stderr.write(f"\r\x1b[K{text}", ending="")

    def report(self, done: Done, *, as_json: bool) -> None:
        """Print the result of a job, and fail where there are problems."""
        self.show(as_json, done.data, done.text)
        if done.problems:
            raise CommandError("; ".join(done.problems))

    def complain(self, problems: Sequence[str]) -> None:
        for problem in problems:
            self.stderr.write(problem)
        # The log of a loop is read while it runs.
        self.stdout.flush()

    def _verify(
        self, using: str, *, namespace: str | None, sample: int | None, as_json: bool, **_: Any
    ) -> None:
        self.report(work.verify(using, namespace=namespace, sample=sample), as_json=as_json)

    def _audit(self, using: str, *, anchor: audit.Anchor | None, as_json: bool, **_: Any) -> None:
        self.report(adjustments.audit(using, anchor), as_json=as_json)

    def _adjust(self, using: str, **options: Any) -> None:
        quiet = options["as_json"] or not options["verbosity"]
        try:
            adjustments.run(self.stdout, None if quiet else self._told(), using, **options)
        finally:
            self.progress()

    def _told(self) -> Callable[[cases.AdjustedMany], None]:
        """Shows the progress on a terminal, or now and then in a log."""
        due = time.monotonic() + _EVERY

        def tell(report: cases.AdjustedMany) -> None:
            nonlocal due
            done = f"{len(report.changes) + report.done + len(report.refused)} looked at"
            self.progress(done)
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
        self.show(as_json, {"database": using, "dry_run": dry_run, **found}, text)

    def _upkeep(self, using: str, *, loop: float | None, as_json: bool, **options: Any) -> None:
        known = jobs.jobs()
        names = [_known_job(name, known) for name in options["jobs"]]
        if options["list"]:
            for job in known.values():
                self.stdout.write(f"{job.name}: {job.help}, every {job.every:g} s")
        elif loop is None:
            due = not (names or options["now"])
            problems, errors = self._work_through(using, names, as_json=as_json, due=due)
            if errors:
                self.complain(problems)
                raise ExceptionGroup("Upkeep failed.", errors)
            if problems:
                raise CommandError("; ".join(problems))
        elif options["now"]:
            raise CommandError("--now is done once, without --loop.")
        else:
            self._loop_through(using, names, loop, as_json=as_json)

    def _loop_through(
        self, using: str, names: Sequence[str], seconds: float, *, as_json: bool
    ) -> None:
        """Do the jobs that are due again and again; what fails is tried again."""
        with until_asked_to_end() as wait:
            for _turn in turns(seconds, wait):
                problems, errors = self._work_through(
                    using, names, as_json=as_json, due=True, goes_on=lambda: wait(0)
                )
                self.complain(problems)
                for error in errors:
                    logger.error("Upkeep of the database %s failed.", using, exc_info=error)

    def _work_through(
        self,
        using: str,
        names: Sequence[str],
        *,
        as_json: bool,
        due: bool,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> tuple[list[str], list[Exception]]:
        """Do the jobs, and print what they did; the problems, and errors that nobody expects."""
        explained = (*_EXPLAINED, *PASSING)
        results: dict[str, Any] = {}
        problems: dict[str, None] = {}
        errors: list[Exception] = []
        for job, done in jobs.run(using, names, due=due):
            if isinstance(done, Done):
                results[job.name] = done.data
                problems |= dict.fromkeys(done.problems)
                if not as_json:
                    self.stdout.write(done.text)
            elif isinstance(done, explained):
                # While a server is away, each job says the same.
                problems[str(done).strip()] = None
            else:
                errors.append(done)
            if not goes_on():
                break
        if as_json:
            self.stdout.write(json.dumps(results, default=str))
        return list(problems), errors

    def _doctor(self, using: str, *, shows_all: bool, fail: bool, as_json: bool, **_: Any) -> None:
        """Print the verdict and its reasons, or all findings as JSON."""
        findings = sorted(examine(using), key=lambda one: _FIRST.index(one.verdict))
        first = _headline(findings)
        shown = [one for one in findings if shows_all or one.verdict is not Verdict.OK]
        text = "\n".join((first, *map(_line, shown)))
        self.show(as_json, [asdict(one) for one in findings], text)
        if fail and verdict(findings) is Verdict.ACT:
            raise CommandError(first)


def _headline(findings: list[Finding]) -> str:
    """The verdict, and how many findings it is based on."""
    worst = verdict(findings)
    if worst is Verdict.OK:
        return worst
    number = sum(one.verdict is worst for one in findings)
    of_them = f"{number} finding" if number == 1 else f"{number} findings"
    return f"{worst}: {of_them} {_NEEDS[worst]}"


def _line(finding: Finding) -> str:
    pending = ""
    if finding.rows and finding.lag is None:
        pending = f"{finding.rows} rows of {finding.counters} counters wait"
    elif finding.rows:
        kept = f"up to {finding.counters} counters in {finding.rows} generations"
        pending = f"{kept} wait, for {finding.lag:.0f} s at most"
    parts = (finding.verdict, finding.subject, finding.strategy, pending, finding.action)
    return " · ".join(filter(None, parts))


def _known_job(name: str, known: Mapping[str, Job]) -> str:
    if name not in known:
        raise CommandError(jobs.unknown(name, known))
    return name


def _modules() -> dict[str, Any]:
    """Return the modules of the sub-commands of features."""
    paths = ((name, path) for one in serving().values() for name, path in one.commands.items())
    return {name: import_module(path) for name, path in paths}


def _anchor(text: str) -> audit.Anchor:
    try:
        return audit.Anchor.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


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
