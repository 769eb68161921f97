"""Compares the rates with those of another commit: ``python3 -m benchmarks --beside COMMIT``.

Two processes, one for each, count in turns on the same servers, each in a database of its own.
Noise of the machine that lasts longer than a turn affects both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from django.db import connection

from benchmarks.database import apart, scratch
from benchmarks.inspection import execute
from example_project.bootstrap.services import services

ROOT = Path(__file__).parent.parent
ROUNDS = 15
SECONDS = 0.6
CASES = ("exact", "sharded", "ledger", "cached", "likes", "hold")
# Runs on the package of either commit, so it has settings of its own. It reads the name of a case
# and a number of seconds, and writes how often it counted in each of them.
COUNTING = """
import sys, time
from importlib.util import find_spec
import dj_database_url, django
from django.conf import settings

url, name, redis, prefix = sys.argv[1:]
apps = ["django.contrib.auth", "django.contrib.contenttypes", "django_counters"]
if find_spec("django_counters.contrib"):
    capabilities = ("django_counters.contrib.holds", "django_counters.contrib.likes")
    apps += [name for name in capabilities if find_spec(name)]
settings.configure(
    INSTALLED_APPS=apps,
    USE_TZ=True,
    DATABASES={"default": {**dj_database_url.parse(url), "NAME": name}},
    CACHES={"default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": redis,
        "KEY_PREFIX": prefix,
    }},
    COUNTERS={
        **{name: {"STRATEGY": name} for name in ("exact", "sharded", "ledger", "cached")},
        "likes": {"ONCE": True},
        "hold": {"FLOOR": 0},
    },
)
django.setup()
from django.core.management import call_command
from django_counters.models import Counter

call_command("migrate", verbosity=0)
Counter.objects.increment("hold:a", 10**9)
people = iter(range(10**9))

def count(case):
    if case == "likes":
        Counter.objects.increment("likes:a", who=f"{name} {next(people)}")
    elif case != "hold":
        Counter.objects.increment(f"{case}:a")
    elif "django_counters.contrib.holds" in apps:
        from django_counters.contrib import holds
        holds.hold("hold:a", 1).release()
    else:
        Counter.objects.hold("hold:a", 1).release()

for line in sys.stdin:
    case, seconds = line.split()
    count(case)
    began, counted = time.perf_counter(), 0
    while time.perf_counter() < began + float(seconds):
        count(case)
        counted += 1
    print(counted / (time.perf_counter() - began), flush=True)
"""


class Side:
    """A process that counts with the package in a folder."""

    def __init__(self, tree: Path, url: str, name: str, redis: str, prefix: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", COUNTING, url, name, redis, prefix],
            env=os.environ | {"PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def rate(self, case: str) -> float:
        """Return how often it counted in a second."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{case} {SECONDS}\n")
        return float(self._process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def show(commit: str) -> None:
    """Print the ratio of the rates of this package to those of a commit, case by case."""
    with ExitStack() as stack:
        urls = stack.enter_context(services(durable=False))
        # `execute` needs a connection to the server.
        stack.enter_context(scratch(urls.database))
        trees = (stack.enter_context(_tree(commit)), ROOT)
        sides = []
        for tree in trees:
            name = stack.enter_context(_empty_database())
            prefix = stack.enter_context(apart(urls.redis))
            sides.append(Side(tree, urls.database, name, urls.redis, prefix))
            stack.callback(sides[-1].end)
        before, after = sides
        for case in CASES:
            ratios = []
            for turn in range(ROUNDS):
                order = (before, after) if turn % 2 else (after, before)
                rates = {side: side.rate(case) for side in order}
                ratios.append(rates[after] / rates[before])
            low, _, high = quantiles(ratios)
            print(f"{case:<8} {median(ratios):.2f} ({low:.2f} to {high:.2f})", flush=True)


@contextmanager
def _tree(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit."""
    with TemporaryDirectory() as folder:
        files = subprocess.run(
            ["git", "archive", commit, "django_counters"], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=files.stdout, check=True)
        yield Path(folder)


@contextmanager
def _empty_database() -> Iterator[str]:
    name = f"counters_beside_{os.getpid()}_{os.urandom(4).hex()}"
    execute(f"CREATE DATABASE {connection.ops.quote_name(name)}")
    try:
        yield name
    finally:
        execute(f"DROP DATABASE {connection.ops.quote_name(name)} WITH (FORCE)")
