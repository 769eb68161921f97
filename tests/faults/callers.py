"""``python -m tests.faults.callers FOLDER SEED CALLS``: processes whose statements are interrupted.

Each call counts a key of its own and writes down what it was told: whether that is true is seen in
the end. Meanwhile their statements and commits are cancelled, their connections are terminated,
and time limits come up.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import django

from tests.faults.cells import COUNTRIES
from tests.faults.scene import Log, lines

CALLERS = 4
COUNTED, UNKNOWN, NOT_COUNTED, LATE = "counted", "unknown", "not counted", "late"
NAME = "counters faults caller"
# Ways that know of no tags.
ADJUSTED = "adjusted"
UNTAGGED = (ADJUSTED, "asked")
# Who counts over HTTP.
LOGGED_IN = 1
# What many of them count, beside what is their own.
SHARED = ("shards:rest", "entries:rest")
# Seconds. A commit takes about five thousandths of one, see the settings of the test.
LIMIT = 0.012
PAUSE = 0.003


class Late(Exception):
    """A time limit of a task: it comes wherever the task happens to be."""


def _alarm(*_: object) -> None:
    raise Late


class Caller:
    """Counts in all ways in turn."""

    def __init__(self, number: int, seed: int, folder: Path) -> None:
        self._number = number
        self._chance = random.Random(f"{seed} caller {number}")
        self._log = Log(folder / f"caller{number}.log")
        self._made = 0

    def run(self, calls: int) -> None:
        """Make so many calls."""
        signal.signal(signal.SIGALRM, _alarm)
        ways: dict[str, Callable[[str], object]] = {
            "exact": _exact,
            "traced": _traced,
            "shards": _exact,
            "entries": _appended,
            "token": _token,
            "many": _many,
            "collected": _collected,
            ADJUSTED: _adjusted,
            "asked": _asked,
        }
        for turn in range(calls):
            way = list(ways)[turn % len(ways)]
            namespace = way if way in ("shards", "entries", "asked") else "plainly"
            key = f"{namespace}:{way}:{self._number}-{turn}"
            limit = self._chance.uniform(0, LIMIT) if self._chance.random() < 0.3 else 0
            told = self._told(ways[way], key, limit)
            self._log.write(f"{told}\t{key}\t{'' if way in UNTAGGED else _tags(key)['country']}")

    def _told(self, count: Callable[[str], object], key: str, limit: float) -> str:
        from django.db import Error, connection, connections

        from django_counters.errors import CounterError, OutcomeUnknown

        try:
            signal.setitimer(signal.ITIMER_REAL, limit)
            try:
                count(key)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Late:
            told = LATE
        except OutcomeUnknown:
            told = UNKNOWN
        except (CounterError, Error):
            told = NOT_COUNTED
        else:
            return COUNTED
        if connection.in_atomic_block:
            # Python was interrupted just before the end of a block, which it left out.
            connection.close()
            del connections["default"]
        connection.close_if_unusable_or_obsolete()
        return told


def _tags(key: str) -> dict[str, str]:
    return {"country": COUNTRIES[zlib.crc32(key.encode()) % len(COUNTRIES)]}


def _exact(key: str) -> None:
    from django_counters.models import Counter

    assert Counter.objects.increment(key, tags=_tags(key), who=key) == 1


def _appended(key: str) -> None:
    """The new value of a ledger is not known."""
    from django_counters.models import Counter

    Counter.objects.increment(key, tags=_tags(key), who=key)


def _traced(key: str) -> None:
    """By a cursor, as where a tool for tracing has a method of its own."""
    from django.db.backends.utils import CursorWrapper

    execute = CursorWrapper.execute

    def look(*words: Any) -> Any:
        return execute(*words)

    with mock.patch.object(CursorWrapper, "execute", look):
        _exact(key)


def _token(key: str) -> None:
    from django_counters.models import Counter

    assert Counter.objects.increment(key, token=key, tags=_tags(key), who=key) == 1


def _many(key: str) -> None:
    """In several strategies, which takes a transaction."""
    from django_counters.models import Counter

    Counter.objects.increment_many({key: 1, **dict.fromkeys(SHARED, 1)}, tags=_tags(key), who=key)


def _collected(key: str) -> None:
    from django_counters.models import Counter

    with Counter.objects.collect():
        Counter.objects.increment(key, tags=_tags(key), who=key)


def _adjusted(key: str) -> None:
    from django_counters.models import Counter

    Counter.objects.adjust(key, by=1, reason="interrupted or not", actor="caller")


def _asked(key: str) -> None:
    """Over HTTP."""
    from django.contrib.auth.models import User
    from rest_framework.test import APIRequestFactory, force_authenticate

    from django_counters.errors import CounterUnavailable, OutcomeUnknown
    from django_counters.rest.views import IncrementView

    request = APIRequestFactory().post(f"/{key}/increment", {"by": 1}, format="json")
    force_authenticate(request, User(pk=LOGGED_IN))
    answer: Any = IncrementView.as_view()(request, key=key)
    if answer.status_code == 504:
        raise OutcomeUnknown(using="default")
    if answer.status_code == 503:
        raise CounterUnavailable(using="default", reason="told over HTTP")
    assert answer.status_code == 200, answer.data


def interrupt(chance: random.Random, cursor: Any) -> None:
    """Cancel what a caller does just now, or end its connection."""
    verb = "pg_terminate_backend" if chance.random() < 0.1 else "pg_cancel_backend"
    cursor.execute(
        f"SELECT {verb}(pid) FROM pg_stat_activity WHERE application_name = %s AND"
        " state <> 'idle' ORDER BY random() LIMIT 1",
        [NAME],
    )


@contextmanager
def callers(seed: int, folder: Path, calls: int) -> Iterator[list[int]]:
    """Forks that count; those that have not ended yet."""
    from django.db import connection

    connection.settings_dict["OPTIONS"]["application_name"] = NAME
    pids = []
    for number in range(CALLERS):
        pid = os.fork()
        if not pid:
            ended = 1
            try:
                Caller(number, seed, folder).run(calls // CALLERS)
                ended = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(ended)
        pids.append(pid)
    connection.settings_dict["OPTIONS"]["application_name"] = "counters faults"
    yield pids
    connection.close()


def play(folder: Path, seed: int, calls: int) -> None:
    """Let them count and interrupt them; write down what was counted."""
    from django.db import connection

    from django_counters.models import Counter

    chance = random.Random(f"{seed} interrupts")
    with callers(seed, folder, calls) as living:
        while living:
            with connection.cursor() as cursor:
                interrupt(chance, cursor)
            time.sleep(chance.uniform(0, PAUSE))
            ended = [os.waitpid(pid, os.WNOHANG) for pid in living]
            assert not any(status for _, status in ended), f"a caller has failed: {ended}"
            living[:] = [pid for pid, (gone, _) in zip(living, ended, strict=True) if not gone]
    keys = [line.split("\t")[1] for line in lines(folder.glob("caller*.log"))]
    keys += SHARED
    book = Log(folder / "counted")
    for start in range(0, len(keys), 500):
        for key, value in Counter.objects.values_of(keys[start : start + 500]).items():
            book.write(f"{value}\t{key}")


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.faults.settings"
    django.setup()
    play(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
