"""Reads the arguments, measures the cases, prints the tables.

The cases come in two groups, each on a server of its own: first those that are about the time of a
call, where no commit waits for the disk; then those that are about waiting, where each does.
Where ``DATABASE_URL`` names a server, that one is used for both, as it is.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.harness import MIN_ROUNDS, Case, Effort, Result, WrongSum, measure
from benchmarks.report import Block, Report
from benchmarks.writers import WriterFailed
from example_project.bootstrap.services import services

QUICK = Effort(rounds=MIN_ROUNDS, share=0.3)


@dataclass(frozen=True)
class Group:
    """Cases that run on the same server; ``durable``: its commits wait for the disk."""

    durable: bool
    cases: Sequence[Case]


def main(argv: Sequence[str]) -> int:
    """Measure and print.

    Returns:
        0 when all was measured, also where a target was missed; 1 when a sum was wrong, a
        writer or pgbench failed or the database is none that can be measured; 2 when there is no
        such case.

    Raises:
        BootstrapError: there is no server, and none could be started.
    """
    options = _options(argv)
    problem = _set_up()
    if problem:
        return _complain(problem)
    from django.db import Error

    from benchmarks.pgbench import PgbenchFailed

    groups = all_groups()
    known = [case.name for group in groups for case in group.cases]
    unknown = [name for name in options.case if name not in known]
    if unknown:
        _complain(f"no case is called {unknown[0]!r}; there are: {', '.join(known)}")
        return 2
    try:
        report = _measured(_chosen(groups, options.case), _effort(options))
    except (WrongSum, WriterFailed, PgbenchFailed, Error) as error:
        return _complain(str(error).strip())
    print(_rendered(report, options))
    return 0


def all_groups() -> list[Group]:
    """All cases; Django is set up."""
    from benchmarks.cases import cached, entries, exact, flush, ledger, rollup, spread, statements

    durable = (flush, statements, spread, rollup, ledger, entries)
    return [
        Group(False, [*exact.CASES, *cached.CASES]),
        Group(True, [*cached.COMMITS, *(case for module in durable for case in module.CASES)]),
    ]


def _chosen(groups: Sequence[Group], names: Sequence[str]) -> list[Group]:
    """The cases with these names, all where there are none; no group is empty."""
    chosen = [
        Group(group.durable, [case for case in group.cases if not names or case.name in names])
        for group in groups
    ]
    return [group for group in chosen if group.cases]


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
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    from django.db import connection

    if connection.vendor != "postgresql":
        return f"many writers at once need PostgreSQL; DATABASE_URL leads to {connection.vendor}"
    return None


def _measured(groups: Sequence[Group], effort: Effort) -> Report:
    from benchmarks import pgbench
    from benchmarks.cases import ledger, statements

    driven = (*statements.CASES, *ledger.STATEMENTS)
    if any(case in driven for group in groups for case in group.cases):
        pgbench.find()  # better now than after some minutes
    return Report([_block(group, effort) for group in groups])


def _block(group: Group, effort: Effort) -> Block:
    from benchmarks import database, machine

    with (
        services(durable=group.durable) as urls,
        database.scratch(urls.database),
        database.apart(urls.redis),
    ):
        present = machine.present()
        with _progress() as progress:
            results = [_result(case, effort, progress) for case in group.cases]
    return Block(present.fields(), present.lines(), results)


def _result(case: Case, effort: Effort, progress: Callable[[str], None]) -> Result:
    from benchmarks import database

    database.settle()
    return measure(case, effort, progress)


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
