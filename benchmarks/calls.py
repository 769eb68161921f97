"""How many functions of the package one change calls: ``python3 -m benchmarks --calls``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import django_counters
from benchmarks import database
from django_counters.cached.flush import flush
from django_counters.models import Counter
from example_project.bootstrap.services import services

PACKAGE = str(Path(django_counters.__file__).parent)
# What is made at the first use is there before anything is counted.
BEFORE = 5


def _nothing() -> None:
    pass


def _count_three() -> None:
    for key in ("pages:a", "pages:b", "pages:c"):
        Counter.objects.increment(key)


# What is counted, and what comes before it each time.
WORK: Mapping[str, tuple[Callable[[], object], Callable[[], None]]] = {
    "increment of an exact counter": (lambda: Counter.objects.increment("plain:a"), _nothing),
    "increment of a cached counter": (lambda: Counter.objects.increment("pages:a"), _nothing),
    "flush of three counters": (flush, _count_three),
}


def counted(work: Callable[[], object], before: Callable[[], None]) -> int:
    """How many calls of functions of the package a piece of work makes, once it is warm.

    A generator counts each time that it goes on.
    """
    for _ in range(BEFORE):
        before()
        work()
    before()
    calls = 0

    def hear(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    sys.setprofile(hear)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def show() -> None:
    """Print how many calls each piece of work makes, on servers of its own."""
    with (
        services(durable=False) as urls,
        database.scratch(urls.database),
        database.apart(urls.redis),
    ):
        for name, (work, before) in WORK.items():
            print(f"{name:<32} {counted(work, before):>6} calls")
