"""A Redis that speaks TLS: the library wraps the socket, what is known stays the same."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_counters.errors import CounterUnavailable
from django_counters.redis.aclient import AsyncClient
from example_project.bootstrap.postgres import free_port
from tests.redis.counting import add, eventually, fresh
from tests.redis.servers import Server, needs_redis, running

pytestmark = [
    needs_redis,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on the PATH"),
]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    file = folder / "both.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
    command = [*words.split(), "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    told = subprocess.run(
        [*command, "-keyout", file, "-out", folder / "cert.pem"], check=True, capture_output=True
    )
    assert told.returncode == 0
    return folder


@pytest.fixture(scope="module")
def secured(certificate: Path) -> Iterator[tuple[Server, str]]:
    port = free_port()
    arguments = (
        *("--tls-port", port, "--tls-auth-clients", "no", "--save", ""),
        *("--tls-cert-file", certificate / "cert.pem", "--tls-key-file", certificate / "both.pem"),
        *("--tls-ca-cert-file", certificate / "cert.pem"),
    )
    with running(certificate / "servers", arguments) as (server,):
        yield server, f"rediss://localhost:{port}/0"


def test_it_counts(secured: tuple[Server, str], certificate: Path) -> None:
    server, url = secured
    server("DEL", "a")
    client = fresh(f"{url}?ssl_ca_certs={certificate / 'cert.pem'}")
    aclient = AsyncClient(client)

    async def work() -> None:
        assert await aclient.run_many([add("a")] * 3) == [2, 3, 4]
        first = await aclient.call("CLIENT", "ID")
        assert await aclient.call("CLIENT", "ID") == first

    assert client.run(add("a")) == 1
    asyncio.run(work())
    mine = client.call("CLIENT", "ID")
    # What TLS says for itself is no reason to connect again.
    assert client.call("CLIENT", "ID") == mine
    server("CLIENT", "KILL", "ID", mine)
    assert eventually(next(iter(client._wires.idle.values())).is_stale)
    assert client.run(add("a")) == 5


def test_a_certificate_that_nobody_trusts(secured: tuple[Server, str]) -> None:
    secured[0]("DEL", "a")
    client = fresh(secured[1])
    with pytest.raises(CounterUnavailable, match="certificate"):
        client.run(add("a"))
    with pytest.raises(CounterUnavailable):
        asyncio.run(AsyncClient(client).run(add("a")))
    assert secured[0]("GET", "a") is None
