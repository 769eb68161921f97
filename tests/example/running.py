"""The example as a process of its own, on a database that the test can see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any
from urllib.parse import quote

from django.db import connection

from example_project.bootstrap.services import DATA

PATIENCE = 120
# Many small blocks, so that a log need not be large to have many of them.
CODE = """
import sys
from example_project import once, run
once.BYTES_OF_A_BLOCK = 2048
sys.exit(run.main(sys.argv[1:]))
"""
# A Redis that may be killed is one that the process has started itself.
WITH_OWN_REDIS = """
import sys
from example_project import run
from example_project.bootstrap.services import services
if __name__ == "__main__":
    with services(quiet=True, restarts=True):
        sys.exit(run.main(sys.argv[1:]))
"""


def url_of_the_test() -> str:
    """Where the database of the test is."""
    parts = connection.settings_dict
    login = quote(parts["USER"]) + (f":{quote(parts['PASSWORD'])}" if parts["PASSWORD"] else "")
    if connection.vendor == "mysql":
        return f"mysql://{login}@{parts['HOST']}:{parts['PORT'] or 3306}/{parts['NAME']}"
    host = f"?host={quote(parts['OPTIONS'].get('host') or parts['HOST'] or '/tmp')}"
    port = parts["OPTIONS"].get("port") or parts["PORT"]
    return f"postgres://{login}@/{parts['NAME']}{host}" + (f"&port={port}" if port else "")


def identity() -> str:
    """What the example takes the database for: it is emptied after each test, and Redis is not."""
    return os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]


def started(url: str, *argv: object, own_redis: bool = False) -> subprocess.Popen[str]:
    """Start the example."""
    env = {**os.environ, "DATABASE_URL": url, DATA: f"{url} {identity()}"}
    if own_redis:
        del env["REDIS_URL"]
    return subprocess.Popen(
        [sys.executable, "-c", WITH_OWN_REDIS if own_redis else CODE, *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


def printed(url: str, *argv: object, own_redis: bool = False) -> dict[str, Any]:
    """Run the example to its end, which has to be a good one, and return what it prints."""
    with started(url, *argv, "--json", own_redis=own_redis) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    found: dict[str, Any] = json.loads(out)
    return found
