"""A server of the site, with workers of its own, for as long as a case takes."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from django.conf import settings
from django.db import connection

from benchmarks.load import LoadFailed
from example_project.bootstrap import children
from example_project.bootstrap.postgres import free_port

WORKERS = 2
THREADS = 4
STARTS_WITHIN = 60.0
_ROOT = Path(__file__).parents[1]


@contextmanager
def served() -> Iterator[int]:
    """Serve the site from the database and the Redis of this process; the port.

    By gunicorn, whose workers have threads, for those without hang up after each answer.
    """
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        child = children.start(_command(port), log=log, env=_environment(), cwd=_ROOT)
        try:
            children.until(lambda: not child.running or _answers(port), STARTS_WITHIN)
            if not _answers(port):
                raise LoadFailed(f"gunicorn does not start: {log.read_text()[-2000:]}")
            yield port
        finally:
            child.stop()


def _command(port: int) -> list[str]:
    name, prefix = connection.settings_dict["NAME"], settings.CACHES["default"]["KEY_PREFIX"]
    return [
        *(sys.executable, "-m", "gunicorn", f"benchmarks.wsgi:application({name!r}, {prefix!r})"),
        *("--worker-class", "gthread", "--workers", str(WORKERS), "--threads", str(THREADS)),
        *("--bind", f"127.0.0.1:{port}", "--keep-alive", "600", "--no-control-socket"),
    ]


def _environment() -> dict[str, str]:
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
        "PYTHONPATH": str(_ROOT),
        "REDIS_URL": str(settings.CACHES["default"]["LOCATION"]),
    }


def _answers(port: int) -> bool:
    """Whether a worker is there: the port is open before."""
    visitor = HTTPConnection("127.0.0.1", port, timeout=STARTS_WITHIN)
    try:
        visitor.request("GET", "/nothing", headers={"Connection": "close"})
        return visitor.getresponse().status == HTTPStatus.NOT_FOUND
    except (OSError, HTTPException):
        return False
    finally:
        visitor.close()
