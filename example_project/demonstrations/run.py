"""The command line of the demonstrations."""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

EPILOG = """
Everything takes place in a database of its own, which is made and dropped: on the server of
DATABASE_URL where that is exported, otherwise on a private one. Who comes in between whom is
arranged, not left to luck: the numbers are the same in each run.
"""


def main(argv: Sequence[str]) -> int:
    """Do what the arguments say.

    Returns:
        0 if all that was counted with django_counters is exact; 1 if not; 2 if there is no
        PostgreSQL or no such demonstration.
    """
    options = parser().parse_args(argv)
    _configure()
    from django.db import connection

    from example_project.demonstrations.stage import OURS, WAYS, outcomes, stage, table

    unknown = [name for name in options.names if name not in WAYS]
    if unknown or connection.vendor != "postgresql":
        print(f"there is no {unknown[0]}: {', '.join(WAYS)}" if unknown else "needs PostgreSQL")
        return 2
    with _database(), stage():
        counted = outcomes(options.names or list(WAYS))
    if options.json:
        print(
            json.dumps(
                {
                    name: {way: n._asdict() for way, n in ways.items()}
                    for name, ways in counted.items()
                }
            )
        )
    else:
        print(table(counted))
    return 0 if all(ways[OURS].verdict == "exact" for ways in counted.values()) else 1


def parser() -> argparse.ArgumentParser:
    """The arguments; needs no Django."""
    main = argparse.ArgumentParser(
        prog="python3 -m example_project.demonstrations",
        description="Naive ways to count, each made to fail, and the same with django_counters.",
        epilog=EPILOG,
    )
    main.add_argument("names", nargs="*", metavar="NAME", help="one of them (else all)")
    main.add_argument("--json", action="store_true", help="print the result as JSON")
    return main


@contextmanager
def _database() -> Iterator[None]:
    """A database of our own for a block, with all tables."""
    from django.db import connection
    from django.test.utils import setup_databases, teardown_databases

    # A name that nobody else has: Django drops a test database that is already there.
    connection.settings_dict["TEST"]["NAME"] = f"demonstrations_{secrets.token_hex(4)}"
    made = setup_databases(verbosity=0, interactive=False)
    try:
        yield
    finally:
        teardown_databases(made, verbosity=0)


def _configure() -> None:
    import django
    from django.conf import settings

    if not settings.configured:
        # Not setdefault: somebody's own project may be exported.
        os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
        django.setup()
