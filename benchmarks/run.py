"""Reads the arguments, measures the cases, prints the tables or publishes them.

The cases come in two groups, each on a server of its own: first those that are about the time of a
call, where no commit waits for the disk; then those that are about waiting, where each does.
Where ``DATABASE_URL`` names a server, that one is used for both, as it is.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.catalogue import Group, all_groups, everything
from benchmarks.harness import MIN_ROUNDS, Effort
from benchmarks.progress import Progress
from benchmarks.report import Block, Report

__all__ = ["QUICK", "all_groups", "main"]

QUICK = Effort(rounds=MIN_ROUNDS, share=0.2)
ROUGH = "A quick run is rough. Where a row names a large amount, it was done with less of it."


def main(argv: Sequence[str]) -> int:
    """Measure and print, or publish.

    Returns:
        0 when all was measured, also where a target was missed; 1 when a sum was wrong, a
        writer, a server or pgbench failed or the database is none that can be measured: what was
        measured is printed, and published, all the same; 2 when there is no such case.

    Raises:
        BootstrapError: there is no server, and none could be started.
    """
    options = _options(argv)
    if options.render:
        return _render()
    problem = _set_up()
    if problem:
        return _complain(problem)
    groups = _asked(options)
    known = _names(groups)
    unknown = [name for name in options.case if name not in known]
    if unknown:
        _complain(f"no case is called {unknown[0]!r}; there are: {', '.join(known)}")
        return 2
    return _measure(_chosen(groups, options.case), options)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python3 -m benchmarks", description=__doc__)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    form.add_argument("--markdown", action="store_true", help="print a table for documentation")
    parser.add_argument("--case", action="append", default=[], help="only this; can be repeated")
    parser.add_argument("--growth", action="store_true", help="also how costs grow: minutes more")
    parser.add_argument("--quick", action="store_true", help="shorter rounds, and the fewest")
    parser.add_argument("--rounds", type=_rounds, help=f"how many rounds, at least {MIN_ROUNDS}")
    parser.add_argument(
        "--publish", action="store_true", help="measure all, and write docs/benchmarks"
    )
    parser.add_argument(
        "--render", action="store_true", help="write docs/benchmarks again without measuring"
    )
    options = parser.parse_args(argv)
    if options.quick and options.publish:
        parser.error("what --quick measures is too rough to be published")
    return options


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


def _asked(options: argparse.Namespace) -> list[Group]:
    """All cases; all there is where more was asked for than cases."""
    cases = all_groups()
    if options.publish or not set(options.case) <= set(_names(cases)):
        return everything()
    if options.growth and not options.case:
        return [replace(group, capacity=False) for group in everything()]
    return cases


def _names(groups: Sequence[Group]) -> list[str]:
    return [name for group in groups for name in group.names()]


def _chosen(groups: Sequence[Group], names: Sequence[str]) -> list[Group]:
    """What has these names, all where there are none; no group is empty."""
    chosen = [group.only(names) if names else group for group in groups]
    return [group for group in chosen if group.names()]


def _measure(groups: Sequence[Group], options: argparse.Namespace) -> int:
    from benchmarks.pgbench import PgbenchFailed
    from benchmarks.session import Session

    try:
        _find_pgbench(groups)
    except PgbenchFailed as error:
        return _complain(str(error).strip())
    with Progress(len(_names(groups))) as progress:
        session = Session(_effort(options), progress)
        if options.publish:
            session.begun = _warn_of_load
        try:
            session.run(groups)
        finally:  # also where it was broken off: what was measured is measured
            if options.publish:
                _publish(session.report)
    return _told(session.report, session.failures, options)


def _warn_of_load(block: Block) -> None:
    """What others do meanwhile is measured too; whether that matters is for a person to say."""
    load, cores = block.machine["load"], block.machine["cores"]
    if float(load) > int(cores):
        print(f"warning: the load is {load} on {cores} cores: these figures", file=sys.stderr)
        print("are those of a busy machine; the page says so", file=sys.stderr)


def _find_pgbench(groups: Sequence[Group]) -> None:
    """Better now than after some minutes."""
    from benchmarks import pgbench
    from benchmarks.cases import ledger, peers_database, statements
    from benchmarks.growth import clients

    driven = (*statements.CASES, *ledger.STATEMENTS, *peers_database.FIXED_COMMITS)
    names = {case.name for case in driven} | {growth.name for growth in clients.GROWTHS}
    if any(names.intersection(group.names()) for group in groups):
        pgbench.find()


def _told(report: Report, failures: Sequence[str], options: argparse.Namespace) -> int:
    print(_rendered(report, options))
    for failure in failures:
        _complain(failure)
    return 1 if failures else 0


def _rendered(report: Report, options: argparse.Namespace) -> str:
    if options.json:
        return report.json()
    text = report.markdown() if options.markdown else report.text()
    return f"{text}\n{ROUGH}" if options.quick else text


def _publish(report: Report) -> None:
    from benchmarks import publish
    from benchmarks.catalogue import themes
    from benchmarks.growth import GROWTHS

    publish.publish(report, themes(), [growth.name for growth in GROWTHS], publish.FOLDER)
    _follow()


def _render() -> int:
    from benchmarks import publish

    publish.render(publish.FOLDER)
    _follow()
    return 0


def _follow() -> None:
    """Bring up to date what other pages say of the same results."""
    from benchmarks import publish, readme
    from benchmarks.capacity import page

    results = publish.stored(publish.FOLDER)
    readme.render(results["rows"])
    if results["capacity"]:
        page.publish()


def _complain(problem: str) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return 1
