"""Fixtures of the tests with real workers."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.workers.running import Crew

RABBITMQ = ("localhost", 5672)


def _redis() -> str:
    # Celery has a name of its own for a socket.
    return os.environ["REDIS_URL"].replace("unix://", "redis+socket://", 1)


def _rabbitmq() -> str:
    host, port = RABBITMQ
    try:
        socket.create_connection(RABBITMQ, timeout=2).close()
    except OSError as error:
        pytest.skip(f"there is no RabbitMQ on {host}:{port}: {error}")
    return f"amqp://guest@{host}:{port}//"


@pytest.fixture(params=["redis", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> str:
    """The address of a broker as Celery reads it."""
    return _redis() if request.param == "redis" else _rabbitmq()


@pytest.fixture
def crew(
    request: pytest.FixtureRequest, transactional_db: None, cached: str, tmp_path: Path
) -> Iterator[Crew]:
    """Processes that count or flush where the test does."""
    uses_broker = "broker" in request.fixturenames
    broker = request.getfixturevalue("broker") if uses_broker else ""
    crew = Crew(tmp_path, cached, broker)
    try:
        yield crew
    finally:
        crew.stop()
        # Shown where the test fails.
        print(crew.told())
        if broker:
            _forget(broker, crew.name)


def _forget(broker: str, name: str) -> None:
    """Delete what a queue leaves behind."""
    if broker.startswith("amqp"):
        from kombu import Connection

        with Connection(broker) as connection, suppress(Exception):
            channel: Any = connection.channel()
            channel.queue_delete(name)
            channel.exchange_delete(name)
        return
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        keys = list(client.scan_iter(f"{name}*"))
        if keys:
            client.delete(*keys)
