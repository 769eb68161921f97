"""Processes that count in buffers, and end or fork in every way: each increment lands once."""

from __future__ import annotations

import os
import signal

import pytest

from django_counters.models import Counter
from example_project.bootstrap.children import Child
from tests.redis.counting import eventually
from tests.workers.running import PATIENCE, Crew

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
MODULE = "tests.workers.buffered"
MANY = 100
# Where a child ends, mysqlclient says good-bye to the server on the socket that it has inherited.
parents_keep_theirs = pytest.mark.postgresql


def told(crew: Crew) -> str:
    return (crew.folder / "log0").read_text()


def ready(crew: Crew, *words: str) -> Child:
    child = crew.start(MODULE, *words)
    assert eventually(lambda: "ready" in told(crew), PATIENCE), "it does not begin"
    return child


def test_at_its_end(crew: Crew) -> None:
    assert crew.start(MODULE, "leave").wait(PATIENCE) == 0
    assert Counter.objects.value("hits:home") == MANY


@pytest.mark.parametrize(
    ("words", "times"),
    [((MODULE, "leave"), 1), ((MODULE, "pool"), 5), (("tests.workers.late", "forkserver"), 1)],
    ids=["leave", "pool", "late"],
)
def test_at_its_end_if_an_app_keeps_the_namespace(
    crew: Crew, words: tuple[str, str], times: int
) -> None:
    crew.declare_in_app()
    assert crew.start(*words).wait(PATIENCE) == 0
    assert Counter.objects.value("hits:home") == times * MANY


def test_sigterm_if_an_app_keeps_the_namespace(crew: Crew) -> None:
    crew.declare_in_app()
    child = ready(crew, "terminated")
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait(PATIENCE) == 128 + signal.SIGTERM
    assert Counter.objects.value("hits:home") == MANY


@pytest.mark.parametrize("way", ["terminated", "handled"])
def test_sigterm_ends_it_as_it_would(crew: Crew, way: str) -> None:
    child = ready(crew, way)
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait(PATIENCE) == 128 + signal.SIGTERM
    assert Counter.objects.value("hits:home") == MANY


@pytest.mark.parametrize("way", ["terminated", "handled"])
def test_sigterm_where_no_thread_can_be_started(crew: Crew, way: str) -> None:
    child = ready(crew, way, "starved")
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait(PATIENCE) == 128 + signal.SIGTERM
    assert Counter.objects.value("hits:home") == MANY


@parents_keep_theirs
def test_a_child_begins_empty(crew: Crew) -> None:
    assert crew.start(MODULE, "fork").wait(PATIENCE) == 0
    assert "child 0\n(1,)" in told(crew), "the socket of the parent is its own"
    assert Counter.objects.value("hits:home") == 3 * MANY


def test_a_child_that_is_forked_in_a_landing(crew: Crew) -> None:
    assert crew.start(MODULE, "fork_in_landing").wait(PATIENCE) == 0
    assert "child 0" in told(crew)
    assert Counter.objects.value("soon:a") == 3 * MANY


@parents_keep_theirs
def test_a_child_ends_on_a_connection_of_its_own(crew: Crew) -> None:
    assert crew.start(MODULE, "in_transaction").wait(PATIENCE) == 0
    assert "child 0" in told(crew)
    assert Counter.objects.value("hits:home") == 2 * MANY


def test_processes_of_a_pool(crew: Crew) -> None:
    assert crew.start(MODULE, "pool").wait(PATIENCE) == 0
    assert Counter.objects.value("hits:home") == 5 * MANY


@pytest.mark.parametrize("way", ["forkserver", "spawn"])
def test_a_process_that_begins_with_django_late(crew: Crew, way: str) -> None:
    assert crew.start("tests.workers.late", way).wait(PATIENCE) == 0
    assert Counter.objects.value("hits:home") == MANY


def test_sigterm_does_not_wait_for_ever(crew: Crew) -> None:
    child = ready(crew, "hanging")
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait(PATIENCE) == 128 + signal.SIGTERM
    assert "lost at the end of a process: default {'hits:home': 100}" in told(crew)


def test_what_cannot_be_landed_is_told(crew: Crew) -> None:
    assert crew.start(MODULE, "away").wait(PATIENCE) == 0
    assert "lost at the end of a process: default {'hits:home': 100}" in told(crew)
    assert Counter.objects.value("hits:home") == 0
