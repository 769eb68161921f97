"""Work that goes on in a thread beside the site."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connections

from example_project.tally import Tally


@contextmanager
def meanwhile(work: Callable[[threading.Event], None], name: str, tally: Tally) -> Iterator[None]:
    """Let ``work`` run until the block ends, which sets its event; an error fails the run."""
    stop = threading.Event()
    thread = threading.Thread(target=_guarded, args=(work, stop, name, tally), name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _guarded(
    work: Callable[[threading.Event], None], stop: threading.Event, name: str, tally: Tally
) -> None:
    try:
        work(stop)
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        tally.fail(f"{name} broke off: {error!r}")
    finally:
        connections.close_all()
