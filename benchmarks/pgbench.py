"""Drives statements with pgbench, PostgreSQL's own program: no Python between them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from django.db import connection
from psycopg.conninfo import make_conninfo

from benchmarks.harness import Sample, Side
from example_project.bootstrap import binaries

SECONDS = 1  # of one slice: pgbench knows no part of a second
ANSWERS_WITHIN = 60.0
DRIVERS_OWN = ("context", "cursor_factory", "prepare_threshold", "server_side_binding")


class PgbenchFailed(Exception):
    """There is no pgbench, or it ended with an error."""


def find() -> str:
    """Where pgbench is: beside the server's program, or on the PATH."""
    server = binaries.find_postgres()
    beside = server and server.path.with_name("pgbench")
    found = (beside and shutil.which(beside)) or shutil.which("pgbench")
    if found is None:
        raise PgbenchFailed("there is no pgbench: apt install postgresql-contrib")
    return found


def written_out(sql: str, params: Any) -> str:
    """A statement with its parameters in place: the text that Django's driver sends.

    A word after a colon is left alone unless it is a variable of the script, or of pgbench itself.
    """
    connection.ensure_connection()
    text = psycopg.ClientCursor(connection.connection).mogrify(sql, params)
    return f"{text};"


def side(script: str, clients: int, seconds: float = SECONDS) -> Side:
    """A side in which so many clients run a script again and again, each one to its end.

    Less than a second is roughly so: the first slice, which takes one, tells how many transactions
    that is, and each client does as many.
    """
    options = ["--no-vacuum", "--protocol=simple", f"--client={clients}"]
    options.append(f"--jobs={min(clients, os.cpu_count() or 1)}")
    program, (address, password) = find(), _address()
    environment = {**os.environ, **password}
    known: list[int] = []

    def run() -> Sample:
        length = f"--transactions={known[0]}" if known else f"--time={SECONDS}"
        sample = parsed(
            _told([program, *options, length, "--file=-", address], script, environment)
        )
        if seconds < SECONDS and not known:
            known.append(max(1, round(seconds / sample.cost / clients)))
        return sample

    return run


def _told(command: Sequence[str], script: str, environment: Mapping[str, str]) -> str:
    """What pgbench says of a run."""
    told = subprocess.run(
        command,
        input=script,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS + ANSWERS_WITHIN,
    )
    if told.returncode != 0:
        raise PgbenchFailed(f"pgbench failed: {told.stderr.strip()}")
    return told.stdout


def parsed(output: str) -> Sample:
    """How many transactions were committed, in how much time without that of connecting."""
    count = re.search(r"^number of transactions actually processed: (\d+)", output, re.MULTILINE)
    rate = re.search(r"^tps = ([\d.]+) \(without initial", output, re.MULTILINE)
    if not count or not rate or not int(count[1]):
        raise PgbenchFailed(f"pgbench does not say what it did:\n{output.strip()}")
    return Sample(int(count[1]), int(count[1]) / float(rate[1]))


def _address() -> tuple[str, dict[str, str]]:
    """Where the connection leads; the password apart, because arguments can be read by all."""
    params = dict(connection.get_connection_params())
    password = params.pop("password", None)
    given = {name: params[name] for name in params if name not in DRIVERS_OWN}
    return make_conninfo(**given), {"PGPASSWORD": password} if password else {}
