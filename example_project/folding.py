"""The rollup of the example: while everybody counts, what waits is folded into the totals."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from django_counters.upkeep.rollup import rollup
from example_project.background import meanwhile
from example_project.tally import Tally

# A site would have a cron job or Celery do this, and once a minute (seconds).
EVERY = 1.0


def rolling_up(tally: Tally, every: float = EVERY) -> AbstractContextManager[None]:
    """Fold again and again, and tell the tally how much was folded."""

    def fold(stop: threading.Event) -> None:
        while not stop.wait(every):
            done = rollup()
            tally.add("folded", done.rows)
            tally.add("entries", done.entries)
            for counter in done.stuck:
                tally.fail(f"the rollup: {counter} does not fit")

    return meanwhile(fold, "the rollup", tally)
