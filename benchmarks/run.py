"""Reads the arguments, measures the cases, prints the table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.harness import MIN_ROUNDS, Case, Effort, WrongSum, measure
from benchmarks.report import Report
from benchmarks.writers import WriterFailed

if TYPE_CHECKING:
    from benchmarks.machine import Machine

QUICK = Effort(rounds=MIN_ROUNDS, share=0.3)


def main(argv: Sequence[str]) -> int:
    """Measure and print.

    Returns:
        0 when all was measured, also where a target was missed; 1 when a sum was wrong, a
        writer failed or the database is none that can be measured; 2 when there is no such case.
    """
    options = _options(argv)
    problem = _set_up()
    if problem:
        return _complain(problem)
    from django.db import Error

    from benchmarks.cases.exact import CASES

    known = {case.name: case for case in CASES}
    unknown = [name for name in options.case if name not in known]
    if unknown:
        _complain(f"no case is called {unknown[0]!r}; there are: {', '.join(known)}")
        return 2
    wanted = [known[name] for name in options.case or known]
    try:
        report = _measured(wanted, _effort(options))
    except (WrongSum, WriterFailed, Error) as error:
        return _complain(str(error).strip())
    print(_rendered(report, options))
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python3 -m benchmarks", description=__doc__)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    form.add_argument("--markdown", action="store_true", help="print a table for documentation")
    parser.add_argument("--case", action="append", default=[], help="only this; can be repeated")
    parser.add_argument("--quick", action="store_true", help="shorter rounds, and the fewest")
    parser.add_argument("--rounds", type=_rounds, help=f"how many rounds, at least {MIN_ROUNDS}")
    return parser.parse_args(argv)


def _rounds(text: str) -> int:
    number = int(text)
    if number < MIN_ROUNDS:
        raise argparse.ArgumentTypeError(f"at least {MIN_ROUNDS} rounds are needed")
    return number


def _effort(options: argparse.Namespace) -> Effort:
    effort = QUICK if options.quick else Effort()
    return Effort(options.rounds or effort.rounds, effort.share)


def _set_up() -> str | None:
    """Start Django with our settings; return what is in the way, if anything is."""
    if not os.environ.get("DATABASE_URL"):
        return "DATABASE_URL is not set; python3 -m benchmarks sets it"
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    from django.db import connection

    if connection.vendor != "postgresql":
        return f"many writers at once need PostgreSQL; DATABASE_URL leads to {connection.vendor}"
    return None


def _measured(cases: Sequence[Case], effort: Effort) -> Report:
    from benchmarks import database, machine

    with database.scratch():
        present: Machine = machine.present()
        with _progress() as progress:
            results = [measure(case, effort, progress) for case in cases]
    return Report(present.fields(), present.lines(), results)


class _Line:
    """One line of a terminal that is written over and over; nothing where there is no terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


@contextmanager
def _progress() -> Iterator[_Line]:
    line = _Line()
    try:
        yield line
    finally:
        line("")


def _rendered(report: Report, options: argparse.Namespace) -> str:
    if options.json:
        return report.json()
    return report.markdown() if options.markdown else report.text()


def _complain(problem: str) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return 1
