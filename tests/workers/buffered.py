"""A process that counts in a buffer and ends in one way; nothing lands before it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from typing import Any

import django

ASKED = threading.Event()
if sys.argv[1] == "handled":
    # As a server does, before it loads its site.
    signal.signal(signal.SIGTERM, lambda *_: ASKED.set())
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.workers.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402

from django_counters.contrib import buffers  # noqa: E402
from django_counters.contrib.buffers import pages, process  # noqa: E402
from django_counters.contrib.buffers.process import buffers as present  # noqa: E402
from django_counters.models import Counter  # noqa: E402

HIT = buffers.handle("hits:home")
MANY = 100


def count() -> None:
    """Count a hundred times in the buffer of this process."""
    for _ in range(MANY):
        HIT.increment()


def starve() -> None:
    """Let no thread start from now on."""
    if "starved" in sys.argv:
        threading.stack_size(1 << 46)


def say(word: object) -> None:
    """One line, at once."""
    os.write(1, f"{word}\n".encode())


def leave() -> None:
    """End as a script does."""
    count()


def terminated() -> None:
    """Wait for SIGTERM; by whatever it is interrupted, go on."""
    count()
    # The app has registered it, and its first buffer doesn't register it again.
    assert signal.getsignal(signal.SIGTERM) is process._terminated
    starve()
    say("ready")
    while True:
        signal.pause()
        say("interrupted")


def hanging() -> None:
    """What is to be landed finds a database that does not answer."""
    process.ENDING = 0.2
    pages.InDatabase.land = lambda *_: threading.Event().wait()  # type: ignore[assignment, method-assign]
    terminated()


def handled() -> None:
    """A handler was there before, and the process ends without `atexit` when it was called."""
    count()
    starve()
    say("ready")
    ASKED.wait()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)


def fork() -> None:
    """A child begins empty: what the parent has is counted by the parent."""
    count()
    # The socket that a child has of it, too, and must not speak on.
    connection.ensure_connection()
    child = os.fork()
    count()
    if child:
        _, status = os.waitpid(child, 0)
        say(f"child {status}")
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            say(cursor.fetchone())


def fork_after_landing() -> None:
    """Children of one that has landed something, and a child of a child; all end as scripts do."""
    count()
    buffers.flush()
    for _ in range(2):
        child = os.fork()
        count()
        if not child:
            # By the second time there is a child of a child.
            continue
        _, status = os.waitpid(child, 0)
        say(f"child {status}")


def fork_in_landing() -> None:
    """A child that is forked while the thread lands something is whole."""
    begun, go = threading.Event(), threading.Event()
    land = pages.InDatabase.land

    def slowly(self: Any, *arguments: Any) -> None:
        begun.set()
        go.wait(30)
        land(self, *arguments)

    pages.InDatabase.land = slowly  # type: ignore[method-assign, assignment]
    Counter.objects.increment("soon:a", MANY)
    begun.wait(30)
    threading.Timer(0.2, go.set).start()
    child = os.fork()
    Counter.objects.increment("soon:a", MANY)
    if child:
        _, status = os.waitpid(child, 0)
        say(f"child {status}")
        return
    # It is landed by a thread of the child: nothing else is left to do it.
    until = time.monotonic() + 30
    while any(waits.entries for _, waits in present.waiting("default")):
        if time.monotonic() > until:
            os._exit(1)
        time.sleep(0.01)
    os._exit(0)


def in_transaction() -> None:
    """A child ends while the connection of its parent has a transaction open."""
    block = transaction.atomic()
    block.__enter__()
    child = os.fork()
    counting = threading.Thread(target=count)
    counting.start()
    counting.join()
    if child:
        _, status = os.waitpid(child, 0)
        say(f"child {status}")
        block.__exit__(None, None, None)


def work(_: int) -> int:
    """What a process of a pool does."""
    count()
    return os.getpid()


def pool() -> None:
    """The processes of a pool end without `atexit`."""
    count()
    with multiprocessing.get_context("fork").Pool(2) as crew:
        crew.map(work, range(4), chunksize=1)
        crew.close()
        crew.join()


def away() -> None:
    """The database cannot be reached at the end."""
    count()
    connection.settings_dict["HOST"] = "/nowhere"


if __name__ == "__main__":
    globals()[sys.argv[1]]()
