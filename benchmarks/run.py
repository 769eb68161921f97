"""Reads the arguments, measures the cases, prints the tables or publishes them.

The cases come in two groups, each on a server of its own: first those that are about the time of a
call, where no commit waits for the disk; then those that are about waiting, where each does.
Where ``DATABASE_URL`` names a server, that one is used for both, as it is. One of MySQL or MariaDB
has cases of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks import page, readme, results, scaling
from benchmarks.harness import Effort

if TYPE_CHECKING:
    from benchmarks.catalogue import Group

QUICK = Effort(rounds=3, share=0.1)
ROUGH = (
    "A quick run is rough, and measures rows with a target. Rows with a large amount ran with a "
    "smaller one, without a verdict."
)


def main(argv: Sequence[str]) -> int:
    """Measure and print, or publish; also where something failed, what was measured.

    Returns:
        0 when all was measured, also where a target was missed; else 1.
    """
    options = _options(argv)
    if options.render:
        render()
        return 0
    vendor = _set_up()
    problem = _problem(vendor, options)
    if problem:
        return _complain(problem)
    if options.calls:
        from benchmarks import calls

        calls.show()
        return 0
    if options.beside:
        from benchmarks import beside

        beside.show(options.beside)
        return 0
    from benchmarks.catalogue import groups

    known = [name for group in groups(vendor) for name in group.names()]
    for unknown in set(options.case).difference(known):
        return _complain(f"no case is called {unknown!r}; there are: {', '.join(known)}")
    return _measure(_chosen(groups(vendor), options), options)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python3 -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--case", action="append", default=[], help="only this; can be repeated")
    parser.add_argument("--growth", action="store_true", help="also how costs grow: minutes more")
    parser.add_argument("--calls", action="store_true", help="count calls of functions instead")
    parser.add_argument("--beside", metavar="COMMIT", help="ratios to the rates of another commit")
    parser.add_argument("--quick", action="store_true", help="rows with a target, in short rounds")
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


def _set_up() -> str:
    """Start Django with our settings; return what kind of database it is."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    from django.db import connection

    return connection.vendor


def _problem(vendor: str, options: argparse.Namespace) -> str:
    """What is in the way, if anything is."""
    if vendor not in ("postgresql", "mysql"):
        return f"many writers at once need PostgreSQL or MySQL; DATABASE_URL leads to {vendor}"
    if vendor == "mysql" and options.publish:
        return "the page of the benchmarks is about PostgreSQL"
    return ""


def _chosen(groups: Sequence[Group], options: argparse.Namespace) -> list[Group]:
    """What was asked for: by name, all there is, those with a target, or the cases.

    No group is empty.
    """
    if options.case:
        groups = [group.only(options.case) for group in groups]
    elif not options.publish:
        growths = [group.growths if options.growth else () for group in groups]
        pairs = zip(groups, growths, strict=True)
        groups = [replace(group, growths=some, capacity=False) for group, some in pairs]
        if options.quick:
            groups = [
                replace(group, cases=[case for case in group.cases if case.target])
                for group in groups
            ]
    return [group for group in groups if group.names()]


def _measure(groups: Sequence[Group], options: argparse.Namespace) -> int:
    from benchmarks.session import Session

    session = Session(QUICK if options.quick else Effort())
    try:
        session.run(groups)
    finally:  # also where it was broken off: what was measured is measured
        if options.publish:
            _publish(session.document)
    if options.json:
        print(results.printed(session.document))
    else:
        print(page.terminal(session.document), ROUGH if options.quick else "", sep="\n")
    for failure in session.failures:
        _complain(failure)
    return 1 if session.failures else 0


def _publish(document: results.Document) -> None:
    from benchmarks.catalogue import titles
    from benchmarks.growth import GROWTHS

    names = [growth.name for growth in GROWTHS]
    merged = results.merged(results.stored(), document, titles(), names)
    results.write(results.FOLDER / results.RESULTS, results.printed(merged) + "\n")
    render()


def render() -> None:
    """Write from ``results.json`` all that shows it: the page, its plots, and other pages."""
    from benchmarks import plots

    document = results.stored()
    files = {f"{curve['name']}.svg": plots.growth(curve) for curve in document["curves"]}
    for path in results.FOLDER.glob("*.svg"):
        if path.name not in files:
            path.unlink()
    for name, text in {**files, "index.md": page.text(document)}.items():
        results.write(results.FOLDER / name, text)
    readme.render(document)
    scaling.render(document)


def _complain(problem: str) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return 1
