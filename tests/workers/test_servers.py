"""Servers that fork and reload while they count: no connection is shared, nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException

import pytest

pytest.importorskip("gunicorn", reason="gunicorn is not installed")

from django_counters.models import Counter
from example_project.bootstrap.children import Child
from example_project.bootstrap.postgres import free_port
from tests.redis.counting import eventually
from tests.workers.connections import shared
from tests.workers.running import (
    PATIENCE,
    Crew,
    is_drained,
    landed,
    waits,
)

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
PRELOADED = "views:loaded"
VISITORS = 4
MANY = 50


class Visits:
    """Requests for keys of their own, each once; what became of them.

    Attributes:
        acknowledged: keys whose answer came.
        unknown: keys whose answer did not come.
        told: what was answered.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.acknowledged: list[str] = []
        self.unknown: list[str] = []
        self.told: list[str] = []

    def answers(self) -> bool:
        """Whether the server is there. Counts nothing."""
        return self._ask("/nothing")[0] == 404

    def _ask(self, path: str) -> tuple[int, str]:
        visitor = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            visitor.request("GET", path)
            answer = visitor.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, HTTPException):
            return 0, ""
        finally:
            visitor.close()

    def visit(self, key: str) -> None:
        status, text = self._ask(f"/count/{key}")
        if status == 200:
            self.acknowledged.append(f"views:{key}")
            self.told.append(text)
        else:
            self.unknown.append(f"views:{key}")

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Let visitors come meanwhile."""
        over = threading.Event()

        def come(number: int) -> None:
            turn = 0
            while not over.is_set():
                self.visit(f"{number}-{turn}")
                turn += 1

        crowd = [threading.Thread(target=come, args=(number,)) for number in range(VISITORS)]
        for one in crowd:
            one.start()
        try:
            yield
        finally:
            over.set()
            for one in crowd:
                one.join(PATIENCE)

    def processes(self) -> set[str]:
        return {line.split()[0] for line in self.told}


def reload_meanwhile(server: Child, visits: Visits) -> None:
    """Have all processes replaced while visitors come."""
    with visits.going_on():
        assert eventually(lambda: len(visits.processes()) >= 2, PATIENCE), "it has one process"
        more(visits)
        before = visits.processes()
        os.kill(server.pid, signal.SIGHUP)
        replaced = eventually(lambda: len(visits.processes() - before) >= 2, PATIENCE)
        assert replaced, "it did not reload"
        more(visits)


def more(visits: Visits) -> None:
    """Let a number of visitors be answered, however slow the machine is."""
    wanted = len(visits.acknowledged) + MANY
    assert eventually(lambda: len(visits.acknowledged) >= wanted, PATIENCE), "it is too slow"


def check(visits: Visits) -> None:
    """Each answered request is counted once, each other one once at most."""
    assert eventually(is_drained, PATIENCE)
    assert waits() == 0
    found = landed()
    found.pop(PRELOADED, None)
    assert set(found.values()) == {1}, "something is counted twice"
    assert set(visits.acknowledged) <= set(found), "something is lost"
    assert set(found) <= {*visits.acknowledged, *visits.unknown}


@pytest.mark.parametrize("buffered", [False, True])
def test_gunicorn_with_preload(crew: Crew, *, buffered: bool) -> None:
    if buffered:
        crew.buffer()
    port = free_port()
    server = crew.start(
        *(
            "gunicorn",
            "tests.workers.preloaded:wsgi",
            "--preload",
            "-w",
            2,
            "-b",
            f"127.0.0.1:{port}",
        ),
        *("--graceful-timeout", 30, "--timeout", 60, "--no-control-socket"),
    )
    visits = Visits(port)
    assert eventually(visits.answers, PATIENCE), "it does not answer"
    reload_meanwhile(server, visits)
    server.stop(grace=30)
    assert Counter.objects.value(PRELOADED) == 1
    check(visits)
    assert shared(visits.told) == {}


def test_uvicorn_with_buffers(crew: Crew) -> None:
    """It lets the default of SIGTERM end the process: nothing that Python has for the end runs."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    crew.buffer()
    port = free_port()
    server = crew.start("uvicorn", "tests.workers.looped:application", "--port", port)
    visits = Visits(port)
    assert eventually(visits.answers, PATIENCE), "it does not answer"
    with visits.going_on():
        more(visits)
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait(PATIENCE) is not None
    check(visits)
