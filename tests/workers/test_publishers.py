"""Processes that publish to Kafka, and end or fork in every way: each increment is there once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.workers.running import PATIENCE, Crew
from tests.workers.test_buffers import MANY, MODULE, ready, told

pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")

if TYPE_CHECKING:
    from tests.streams.topics import Topic

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def topic(crew: Crew) -> Iterator[Topic]:
    """Where the buffers of the crew publish."""
    from example_project.broker import Broker
    from tests.streams.topics import Topic

    broker = Broker()
    made = Topic(broker)
    crew.publish(broker.address, made.name)
    yield made
    broker.end()


def sums(topic: Topic) -> list[int]:
    """What each message adds."""
    return sorted(by for _, one in topic.published() for by in one["sums"].values())


def test_at_its_end(crew: Crew, topic: Topic) -> None:
    assert crew.start(MODULE, "leave").wait(PATIENCE) == 0
    assert sums(topic) == [MANY]


@pytest.mark.parametrize("way", ["terminated", "handled"])
def test_sigterm_ends_it_as_it_would(crew: Crew, topic: Topic, way: str) -> None:
    child = ready(crew, way)
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait(PATIENCE) == 128 + signal.SIGTERM
    assert sums(topic) == [MANY]


def test_processes_of_a_pool(crew: Crew, topic: Topic) -> None:
    assert crew.start(MODULE, "pool").wait(PATIENCE) == 0
    assert sum(sums(topic)) == 5 * MANY


def test_children_of_one_that_has_published(crew: Crew, topic: Topic) -> None:
    assert crew.start(MODULE, "fork_after_landing").wait(PATIENCE) == 0, told(crew)
    assert told(crew).count("child 0") == 3
    assert sums(topic) == [MANY] * 3 + [2 * MANY] * 2
