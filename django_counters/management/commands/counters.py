"""``manage.py counters``: upkeep, and a look at what is there."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.translation import gettext as _

from django_counters.upkeep.doctor import examine
from django_counters.upkeep.rollup import Report, rollup


class Command(BaseCommand):
    """One command, with a sub-command for each kind of work."""

    help = _("Looks after counters.")
    # The doctor says himself what is wrong in the settings.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        subs = parser.add_subparsers(dest="work", required=True, metavar="rollup|doctor")
        fold = subs.add_parser(
            "rollup", help=_("fold shards and slots into the totals"), parents=[_common()]
        )
        fold.add_argument("--dry-run", action="store_true", help=_("count what waits, no more"))
        subs.add_parser(
            "doctor", help=_("say what waits where, and what has to be done"), parents=[_common()]
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        using = options["database"]
        if using not in connections:
            raise CommandError(f"There is no database {using!r}.")
        work = {"rollup": self._rollup, "doctor": self._doctor}[options["work"]]
        work(using, **options)

    def _rollup(self, using: str, *, dry_run: bool, as_json: bool, **_: Any) -> None:
        report = rollup(using, dry_run=dry_run, progress=self._progress)
        self._clear()
        if as_json:
            self.stdout.write(json.dumps({"database": using, "dry_run": dry_run, **asdict(report)}))
        elif dry_run:
            self.stdout.write(f"{report.left} rows wait for their rollup")
        else:
            self.stdout.write(
                f"{report.rows} rows folded, {report.orphans} without a record dropped, "
                f"{report.left} left"
            )
        if report.stuck:
            stuck = ", ".join(report.stuck)
            raise CommandError(f"These do not fit, or have no possible record: {stuck}")

    def _doctor(self, using: str, *, as_json: bool, **_: Any) -> None:
        findings = examine(using)
        if as_json:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings]))
            return
        for one in findings:
            waits = f"{one.rows} rows of {one.counters} counters wait" if one.rows else ""
            parts = (one.subject, one.strategy, waits, one.action)
            self.stdout.write(" · ".join(part for part in parts if part))
        if not findings:
            self.stdout.write("Nothing waits, and nothing is wrong.")

    def _progress(self, label: str, report: Report) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r\x1b[K{label}: {report.rows} rows folded", ending="")

    def _clear(self) -> None:
        if self.stderr.isatty():
            self.stderr.write("\r\x1b[K", ending="")


def _common() -> ArgumentParser:
    common = ArgumentParser(add_help=False)
    common.add_argument("--database", default=DEFAULT_DB_ALIAS, help=_("which database"))
    common.add_argument("--json", action="store_true", dest="as_json", help=_("print one object"))
    return common
