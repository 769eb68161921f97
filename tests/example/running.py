"""The example as a process of its own, on a database that the test can see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any
from urllib.parse import quote

from django.db import connection

PATIENCE = 120
# Many small blocks, so that a log need not be large to have many of them.
CODE = """
import sys
from example_project import once, run
once.BYTES_OF_A_BLOCK = 2048
sys.exit(run.main(sys.argv[1:]))
"""


def url_of_the_test() -> str:
    """Where the database of the test is."""
    parts = connection.settings_dict
    login = quote(parts["USER"]) + (f":{quote(parts['PASSWORD'])}" if parts["PASSWORD"] else "")
    host = f"?host={quote(parts['OPTIONS'].get('host') or parts['HOST'] or '/tmp')}"
    port = parts["OPTIONS"].get("port") or parts["PORT"]
    return f"postgres://{login}@/{parts['NAME']}{host}" + (f"&port={port}" if port else "")


def started(url: str, *argv: object) -> subprocess.Popen[str]:
    """Start the example."""
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DATABASE_URL": url},
    )


def printed(url: str, *argv: object) -> dict[str, Any]:
    """Run the example to its end, which has to be a good one, and return what it prints."""
    with started(url, *argv, "--json") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    found: dict[str, Any] = json.loads(out)
    return found
