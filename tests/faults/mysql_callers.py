"""``python -m tests.faults.mysql_callers FOLDER WHO SEED``: one process that counts on MySQL.

Each call counts a key of its own. It is written down before the call, and again with what the call
said, so that it is known what a process was doing when it was killed. ``upkeep`` rolls up and
flushes instead, and ``settle`` does so at the end, and writes down what was counted.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import django

from tests.faults.scene import Log, lines

COUNTED, UNKNOWN, NOT_COUNTED = "counted", "unknown", "not counted"
# What many of them count, beside what is their own.
SHARED = ("shards:rest", "plainly:rest")
OVER, BOOK = "over", "counted"


def ways() -> dict[str, Callable[[str], object]]:
    """How each key is counted, by its namespace and way."""
    from django_counters.models import Counter

    def many(key: str) -> None:
        Counter.objects.increment_many({key: 1, **dict.fromkeys(SHARED, 1)})

    def once(key: str) -> None:
        Counter.objects.increment(key, token=key)

    count = Counter.objects.increment
    return {
        "plainly:exact": count,
        "shards:sharded": count,
        "plainly:token": once,
        "plainly:many": many,
        "plain:cached": count,
    }


def told(count: Callable[[str], object], key: str) -> str:
    """What a call says of itself."""
    from django.db import Error, connection

    from django_counters.errors import CounterError, OutcomeUnknown

    try:
        count(key)
    except OutcomeUnknown:
        found = UNKNOWN
    except (CounterError, Error):
        found = NOT_COUNTED
    else:
        return COUNTED
    connection.close_if_unusable_or_obsolete()
    return found


def call(folder: Path, who: str, seed: str) -> None:
    """Count until it is over; what has a token is tried until it is counted."""
    chance, log, known = random.Random(f"{seed} {who}"), Log(folder / f"caller{who}.log"), ways()
    for turn, name in enumerate(_until_over(folder, lambda: chance.choice(list(known)))):
        key = f"{name}:{who}-{turn}"
        log.write(f"{UNKNOWN}\t{key}")
        found = told(known[name], key)
        while name.endswith("token") and found != COUNTED:
            time.sleep(0.05)
            found = told(known[name], key)
        log.write(f"{found}\t{key}")


def upkeep(folder: Path) -> None:
    """Roll up and flush until it is over, whatever happens meanwhile."""
    for work in _until_over(folder, _upkeep):
        work()


def _upkeep() -> Callable[[], None]:
    from django.db import Error, connection

    from django_counters.cached.flush import flush
    from django_counters.errors import CounterError
    from django_counters.upkeep import rollup

    def work() -> None:
        for step in (rollup, flush):
            with suppress(CounterError, Error):
                step()
        connection.close_if_unusable_or_obsolete()

    return work


def settle(folder: Path) -> None:
    """Land all and write down what each key has counted."""
    from django_counters.cached.flush import flush
    from django_counters.models import Counter
    from django_counters.upkeep import verify
    from tests.settling import roll_up

    flush()
    roll_up()
    assert verify().drifts == []
    keys = sorted({line.split("\t")[1] for line in lines(folder.glob("caller*.log"))})
    book = Log(folder / BOOK)
    for start in range(0, len(keys), 500):
        for key, value in Counter.objects.values_of(keys[start : start + 500]).items():
            book.write(f"{value}\t{key}")
    for key in SHARED:
        book.write(f"{Counter.objects.value(key)}\t{key}")


def _until_over(folder: Path, draw: Callable[[], Any]) -> Iterator[Any]:
    while not (folder / OVER).exists():
        yield draw()


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.faults.settings"
    django.setup()
    place, me, seed_ = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    works: dict[str, Callable[[], None]] = {
        "upkeep": partial(upkeep, place),
        "settle": partial(settle, place),
    }
    works.get(me, partial(call, place, me, seed_))()
