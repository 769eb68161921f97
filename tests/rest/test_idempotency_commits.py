"""A COMMIT whose answer is lost: the same Idempotency-Key tells whether it was counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection

from django_counters.rest import base
from tests.redis.proxy import Fault, Proxy
from tests.rest.asking import (
    BESIDE,
    WITHIN,
    Case,
    assert_first,
    assert_replayed,
    counted,
    pass_lease,
    send,
    times,
)
from tests.rest.conftest import Client, problem
from tests.settling import let_others_end

pytestmark = [
    # The proxy passes a request on, then its reply: a server of MySQL is the first to speak.
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]
COMMIT = b"COMMIT"
# What becomes of the COMMIT, and whether it is executed.
LOST: dict[Fault, bool] = {"close": True, "unsent": False}


@pytest.fixture
def network(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What stands between this process and PostgreSQL."""
    connection.ensure_connection()
    server: Any = connection.connection.info
    name = quote(f"{server.host}/.s.PGSQL.{server.port}")
    at_home = server.host.startswith("/")
    # Whoever is at work stays so, however long a busy server takes.
    monkeypatch.setattr(base, "_LEASE", timedelta(hours=1))
    proxy = Proxy(f"unix://{name}" if at_home else f"tcp://{server.host}:{server.port}")
    connection.close()
    given: dict[str, Any] = connection.settings_dict
    known = {"host": "127.0.0.1", "port": str(proxy.port), "sslmode": "disable"}
    with monkeypatch.context() as patch:
        patch.setitem(given, "HOST", "")
        patch.setitem(given, "PORT", "")
        patch.setitem(given, "OPTIONS", {**given["OPTIONS"], **known})
        yield proxy
        connection.close()
    proxy.stop()


def lose_the_commit(client: Client, case: Case, network: Proxy, fault: Fault) -> None:
    send(client, case, "before")
    network.lose(fault, marker=COMMIT)
    problem(send(client, case), 504, "outcome-unknown")
    assert network.times == 0
    # Until the server sees that the connection is gone, the request counts as being worked on.
    let_others_end()


@pytest.mark.parametrize("case", WITHIN, indirect=True)
@pytest.mark.parametrize("fault", LOST)
def test_of_the_change(client: Client, case: Case, network: Proxy, fault: Fault) -> None:
    """Where it was executed, the answer is there; else it is done now."""
    lose_the_commit(client, case, network, fault)
    assert counted(client, case) == times(case, 2 if LOST[fault] else 1)
    again = send(client, case)
    if LOST[fault]:
        assert_replayed(again, again)
    else:
        assert_first(again)
    assert counted(client, case) == times(case, 2)


@pytest.mark.parametrize("case", BESIDE, indirect=True)
@pytest.mark.parametrize("fault", LOST)
def test_of_the_claim(client: Client, case: Case, network: Proxy, fault: Fault) -> None:
    """Nothing was counted; whether somebody is at work is what the database says."""
    lose_the_commit(client, case, network, fault)
    assert counted(client, case) == times(case, 1)
    if LOST[fault]:
        problem(send(client, case), 409, "in-progress")
        pass_lease()
    again = send(client, case)
    if "views:a/" in case.path or not LOST[fault]:
        assert_first(again)
        assert counted(client, case) == times(case, 2)
    else:
        problem(again, 504, "outcome-unknown")
        assert counted(client, case) == times(case, 1)
