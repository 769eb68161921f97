"""One region: a process that counts visits, publishes, pulls, and tells what it sees.

It is told to stop counting, and to go on, by its standard input, and ends with it. What it sees it
writes as lines of JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading

import django

django.setup()

from django.db import close_old_connections  # noqa: E402

from django_counters.contrib.regions import value  # noqa: E402
from django_counters.contrib.regions.publishing import publish  # noqa: E402
from django_counters.contrib.regions.pulling import pull  # noqa: E402
from django_counters.errors import CounterError  # noqa: E402
from django_counters.models import Counter  # noqa: E402
from example_project.regions.settings import KEY, NAMES, REGION  # noqa: E402

COUNT, REST = "count", "rest"
_EVERY = 0.25  # seconds
_MOST = 12  # visits of one turn


class Region:
    """What the process does, turn by turn."""

    def __init__(self) -> None:
        self._name = os.environ[REGION]
        self._counted = 0
        self._counts = True
        self._ended = threading.Event()

    def listen(self) -> None:
        """Do what the standard input says, until it ends."""
        for line in sys.stdin:
            self._counts = line.strip() == COUNT
        self._ended.set()

    def work(self) -> None:
        """Count, exchange, and tell, until the standard input has ended."""
        while not self._ended.wait(_EVERY):
            counts = self._counts
            for _ in range(random.randint(1, _MOST) if counts else 0):
                Counter.objects.increment(KEY)
                self._counted += 1
            problem = _exchanged()
            close_old_connections()
            print(json.dumps({**self._seen(), "counts": counts, "problem": problem}), flush=True)

    def _seen(self) -> dict[str, object]:
        """What was counted here, and what this database says of all regions."""
        seen = {name: value(KEY, region=name) for name in NAMES}
        total = Counter.objects.value(KEY)
        return {"name": self._name, "counted": self._counted, "seen": seen, "total": total}


def _exchanged() -> str:
    """Publish and pull as often as the commands would; why something was not possible."""
    try:
        publish()
    except CounterError as error:
        return str(error)
    return "; ".join(f"{name}: {done.problem}" for name, done in pull().items() if done.problem)


if __name__ == "__main__":
    region = Region()
    threading.Thread(target=region.listen, daemon=True).start()
    region.work()
