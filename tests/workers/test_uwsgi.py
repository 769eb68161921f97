"""uWSGI, which forks and ends processes without telling Python: no buffer counts twice or loses."""

from __future__ import annotations

import os
import signal

import pytest

pytest.importorskip("pyuwsgi", reason="pyuwsgi is not installed")

from django_counters.models import Counter
from example_project.bootstrap.children import Child
from example_project.bootstrap.postgres import free_port
from tests.redis.counting import eventually
from tests.workers.connections import shared
from tests.workers.running import PATIENCE, Crew, landed
from tests.workers.test_servers import PRELOADED, Visits, check, more

pytestmark = [pytest.mark.many_writers, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


class Uwsgi:
    """A server with two processes, all of which are replaced when a file is touched."""

    def __init__(self, crew: Crew, *options: str) -> None:
        self._touched = crew.folder / "touched"
        self._touched.touch()
        port = free_port()
        self.child: Child = crew.start(
            "tests.workers.under_uwsgi",
            *("--http-socket", f"127.0.0.1:{port}", "--module", "tests.workers.preloaded:wsgi"),
            *("--master", "--need-app", "--processes", 2),
            # Else SIGTERM ends a process in the middle of a request, and no exit handler is called.
            *("--hook-master-start", "unix_signal:15 gracefully_kill_them_all"),
            *("--touch-workers-reload", self._touched, *options),
        )
        self.visits = Visits(port)
        assert eventually(self.visits.answers, PATIENCE), "it does not answer"

    def reload(self) -> None:
        # By another second, as uWSGI compares no less, and a start may take less.
        later = self._touched.stat().st_mtime + 10
        os.utime(self._touched, (later, later))


@pytest.fixture
def buffered(crew: Crew) -> Crew:
    crew.buffer()
    return crew


LAZY = "--lazy-apps"


@pytest.mark.parametrize(
    "options",
    [
        ("--enable-threads",),
        ("--enable-threads", LAZY),
        ("--enable-threads", "--max-requests", "20"),
        ("--enable-threads", "--threads", "2"),
        ("--enable-threads", "--py-call-osafterfork"),
        (LAZY,),
        (),
    ],
    ids=" ".join,
)
def test_all_that_is_acknowledged_is_landed(buffered: Crew, options: tuple[str, ...]) -> None:
    server = Uwsgi(buffered, *options)
    visits = server.visits
    with visits.going_on():
        assert eventually(lambda: len(visits.processes()) >= 2, PATIENCE), "it has one process"
        more(visits)
        before = visits.processes()
        server.reload()
        replaced = eventually(lambda: len(visits.processes() - before) >= 2, PATIENCE)
        assert replaced, "it did not reload"
        more(visits)
        # While visitors come.
        os.kill(server.child.pid, signal.SIGTERM)
        assert server.child.wait(PATIENCE) == 0
    check(visits)
    assert shared(visits.told) == {}
    # What counted when the site was loaded: once where the master loads it, else in each process.
    loaded = Counter.objects.value(PRELOADED)
    assert loaded >= 4 if LAZY in options else loaded == 1, loaded


@pytest.mark.parametrize("threads", [True, False])
def test_a_buffer_is_used_where_there_are_threads(buffered: Crew, *, threads: bool) -> None:
    """Else each increment counts at once, and the log says why."""
    server = Uwsgi(buffered, *(["--enable-threads"] if threads else []))
    server.visits.visit("a")
    assert server.visits.acknowledged == ["views:a"]
    at_once = {PRELOADED: 1} if threads else {PRELOADED: 1, "views:a": 1}
    assert landed() == at_once, "the buffer flushes after an hour; one without threads isn't used"
    assert ("no buffer in uWSGI" in buffered.told()) is not threads
