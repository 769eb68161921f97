"""``python3 -m benchmarks.first_page [COMMIT ...]``: how long until the example shows a page.

Each commit is cloned into an empty folder. Cold is the first start there: packages are installed
from what pip has kept. Warm is the second start.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from example_project.bootstrap.folders import ROOT
from example_project.bootstrap.postgres import free_port

HOST, PAGE = "127.0.0.1", "/live/"
# Seconds.
PATIENCE = 900.0
ASKS_EVERY = 0.05
HEAD = ("Commit", "Its day", "Cold", "Warm")


def main(commits: list[str]) -> int:
    """Print a table of the commits; of the present one, if none is named."""
    rows = [_measured(commit) for commit in commits or ["HEAD"]]
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    machine = f"{platform.system()} {platform.machine()}, {cores} cores, load {load:.1f}"
    print(f"{datetime.now(UTC).date()}, {machine}, Python {platform.python_version()}\n")
    for row in (HEAD, ("---",) * len(HEAD), *rows):
        print(f"| {' | '.join(row)} |")
    return 0


def _measured(commit: str) -> tuple[str, ...]:
    shown = _git(ROOT, "log", "-1", "--format=%h %cs", commit).split()
    with tempfile.TemporaryDirectory() as folder:
        # The server of root is another user's process, and has its data in there.
        Path(folder).chmod(0o755)
        clone = Path(folder, "clone")
        _git(ROOT, "clone", "-q", "--shared", str(ROOT), str(clone))
        _git(clone, "checkout", "-q", shown[0])
        seconds = [_seconds_to_the_first_page(clone) for _ in ("cold", "warm")]
    return (*shown, *(f"{one:.1f} s" for one in seconds))


def _seconds_to_the_first_page(clone: Path) -> float:
    """Start the example as a user does, ask until a page is answered, and end it."""
    began, port = time.monotonic(), free_port()
    with _started(clone, port) as process:
        while not _is_answered(port):
            if process.poll() is not None or time.monotonic() > began + PATIENCE:
                raise RuntimeError(f"the example in {clone} shows no page")
            time.sleep(ASKS_EVERY)
        return time.monotonic() - began


@contextmanager
def _started(clone: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    # Not the interpreter of an environment: that one has packages.
    python = str(Path(sys.base_prefix, "bin", "python3"))
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = {"PIP_CACHE_DIR": str(home / "pip"), "UV_CACHE_DIR": str(home / "uv")}
    env = {**os.environ, **kept, "XDG_CACHE_HOME": str(clone.parent / "cache")}
    for name in ("DATABASE_URL", "REDIS_URL", "PYTHONPATH"):
        env.pop(name, None)
    command = [python, "-m", "example_project", "--port", str(port)]
    process = subprocess.Popen(command, cwd=clone, env=env, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def _is_answered(port: int) -> bool:
    with closing(HTTPConnection(HOST, port, timeout=PATIENCE)) as connection:
        try:
            connection.request("GET", PAGE)
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False


def _git(folder: Path, *arguments: str) -> str:
    told = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return told.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
