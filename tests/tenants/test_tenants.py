"""One process counts for several tenants, each of which has a schema; nothing is mixed."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.db import connection, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from django.test import override_settings

from django_counters.checks import check_tenants
from django_counters.contrib.limits import Limit
from django_counters.errors import InvalidConfiguration
from django_counters.models import Counter
from django_counters.tenants import makes_cursors
from tests.docs.pages import ROOT
from tests.tenants.backend.base import DatabaseWrapper as OfTenants

NAMES = "tests.tenants.test_tenants."
CONTEXT = "contextlib.nullcontext"
RIGHT = {
    tenant: {
        "plain": 3 * by,
        "orders": 3 * by,
        "views": [3 * by, 3 * by],
        "votes": 1,
        "clicks": 3 * by,
        # Of clicks, and of the vote.
        "cells": 3 * by,
        "by country": {f"{tenant}{turn}": by for turn in range(3)},
        "replayed": [False, True, True],
        "taken": [True, False, False],
    }
    for by, tenant in enumerate(("ta", "tb"), 1)
}


@pytest.fixture
def database(django_db_blocker: Any) -> Iterator[str]:
    """An empty database of the server of the tests."""
    name = f"tenants_{secrets.token_hex(4)}"
    with django_db_blocker.unblock():
        with connection._nodb_cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        yield name
        with connection._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def counted(database: str, apart: str) -> Any:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.tenants.settings",
        "TENANTS_DATABASE": database,
        "TENANTS_APART": apart,
    }
    run = subprocess.run(
        [sys.executable, "-m", "tests.tenants.running"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.postgresql
def test_each_tenant_reads_its_own_counts(database: str) -> None:
    told = counted(database, "1")
    for tenant, right in RIGHT.items():
        assert told[tenant] == right
    # What runs after the commit, or in a thread, is of the tenant of the call.
    assert told["deferred"] == {
        "heard": ["ta", "ta"],
        "ta": {"late": 1, "tags": ["late"], "spilled": [5], "collected": 7, "lost": [1]},
        "tb": {"late": 1, "tags": ["other"], "spilled": [], "collected": 0, "lost": [0]},
    }


@pytest.mark.postgresql
def test_exact_counters_follow_the_schema_even_without_the_setting(database: str) -> None:
    assert counted(database, "0") == {"ta": 3, "tb": 6}


def test_only_a_backend_of_its_own_makes_cursors() -> None:
    assert makes_cursors(OfTenants)
    assert not makes_cursors(DatabaseWrapper)


def broken() -> int:
    return 7


def present() -> str:
    return "acme"


NO_CALLABLE = 7


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["broken", "missing", "NO_CALLABLE"])
def test_a_setting_that_names_no_tenant_raises(name: str) -> None:
    with (
        override_settings(COUNTERS_TENANT=NAMES + name, COUNTERS_TENANT_CONTEXT=CONTEXT),
        pytest.raises(InvalidConfiguration, match="COUNTERS_TENANT"),
    ):
        Counter.objects.increment("a")


@pytest.mark.parametrize("name", ["missing", "NO_CALLABLE"])
def test_the_check_finds_such_a_setting(name: str) -> None:
    with override_settings(COUNTERS_TENANT=NAMES + name, COUNTERS_TENANT_CONTEXT=CONTEXT):
        assert ids(check_tenants()) == ["counters.E060"]


def test_the_check_wants_a_context_beside_a_tenant() -> None:
    with override_settings(COUNTERS_TENANT=NAMES + "present"):
        assert ids(check_tenants()) == ["counters.E060"]


def ids(found: list[CheckMessage]) -> list[str | None]:
    return [one.id for one in found]


@pytest.mark.parametrize("limited", [False, True])
def test_the_check_wants_the_setting_beside_such_a_backend(
    override_counters: Callable[..., None], monkeypatch: pytest.MonkeyPatch, limited: bool
) -> None:
    monkeypatch.setattr("django_counters.contrib.limits.limit._cached", set())
    if limited:
        Limit("search", "1/day")
    else:
        override_counters(views={"STRATEGY": "cached"})
    assert check_tenants() == []
    tenants = OfTenants(connections["default"].settings_dict, "default")
    monkeypatch.setattr(connections._connections, "default", tenants)  # type: ignore[attr-defined]
    assert ids(check_tenants()) == ["counters.E060"]
    with override_settings(COUNTERS_TENANT=None):
        assert check_tenants() == []
    with override_settings(COUNTERS_TENANT=NAMES + "present", COUNTERS_TENANT_CONTEXT=CONTEXT):
        assert check_tenants() == []


@pytest.mark.django_db
def test_a_buffer_is_refused_beside_tenants(override_counters: Callable[..., None]) -> None:
    override_counters(hits={"BUFFER": {"seconds": 1}})
    with (
        override_settings(COUNTERS_TENANT=NAMES + "present", COUNTERS_TENANT_CONTEXT=CONTEXT),
        pytest.raises(InvalidConfiguration, match="COUNTERS_TENANT"),
    ):
        Counter.objects.increment("hits:a")
