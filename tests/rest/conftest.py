"""Fixtures of the tests of the API: who asks, for which counters. Nothing stays in the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from rest_framework.test import APIClient

from django_counters.registry import registry
from django_counters.rest import expose, targets
from django_counters.testing import override_counters
from tests.testapp.models import Article, Post, Song

API = "/api/v1"
API_TESTS = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]
ROLES = ("anonymous", "user", "staff", "permitted", "superuser")
OPEN: dict[str, Any] = {
    "read": "anyone",
    "increment": "authenticated",
    "decrement": "staff",
    "hold": "authenticated",
    "adjust": "permission",
}
ALL: dict[str, Any] = {**OPEN, "history": "anyone", "approve": "permission"}
# Records are not listed.
ALL_NAMED: dict[str, Any] = {**ALL, "list": "anyone"}
ORIGIN = "https://example.org"
NAMESPACES: dict[str, dict[str, Any]] = {
    "likes": {"API": ALL_NAMED},
    "sums": {"STRATEGY": "sharded", "API": ALL_NAMED},
    "orders": {"STRATEGY": "ledger", "API": ALL_NAMED},
    # Patient: the machine of a test may be busy.
    "views": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, "API": ALL_NAMED},
    "stock": {"FLOOR": 0, "CEILING": 100, "API": ALL_NAMED},
    "guarded": {"API": dict.fromkeys(ALL_NAMED, "permission")},
    "inside": {"API": dict.fromkeys(ALL_NAMED, "staff")},
    "secret": {},
    "hits": {
        "API": {"read": "anyone", "increment": "beacon", "origins": [ORIGIN], "limit": "60/min"}
    },
}
# One key of each strategy of named counters.
NAMED = {"exact": "likes:a", "sharded": "sums:a", "ledger": "orders:a", "cached": "views:a"}
KINDS = [*NAMED, "exact field", "slotted field", "cached field"]


class Client(APIClient):
    """Sends JSON. ``key`` stands for the rest of the path, as it is: quote it where need be."""

    default_format = "json"

    def at(self, key: str, action: str = "", **extra: Any) -> Any:
        """Read a counter."""
        return self.get(f"{API}/counters/{key}{action and '/'}{action}", **extra)

    def do(self, action: str, key: str, body: Any = None, **extra: Any) -> Any:
        """Change a counter."""
        return self.post(f"{API}/counters/{key}/{action}", body, **extra)

    def bulk(self, action: str, body: Any, **extra: Any) -> Any:
        """Read or change several."""
        return self.post(f"{API}/bulk/{action}", body, **extra)


As = Callable[..., Client]


@pytest.fixture(autouse=True)
def isolated() -> Iterator[None]:
    """What a test exposes, and what it lets exist, is forgotten."""
    with patch.dict(targets._exposed, clear=True):
        _forget_admitted()
        yield
    _forget_admitted()


def _forget_admitted() -> None:
    for alias in connections:
        registry.admitted(alias).clear()


@pytest.fixture
def namespaces(cached: str) -> Iterator[None]:
    """`NAMESPACES` are declared, in a Redis where nothing waits yet."""
    with override_counters(**NAMESPACES):
        yield


@pytest.fixture
def fields(db: None, cached: str) -> dict[str, str]:
    """A field of each strategy is exposed; the key of one counter of each."""

    for model, name in ((Post, "likes"), (Song, "plays"), (Article, "reads")):
        expose(model, name, **ALL)
    return {
        "exact field": f"testapp.Post.likes:{Post.objects.create().pk}",
        "slotted field": f"testapp.Song.plays:{Song.objects.create().pk}",
        "cached field": f"testapp.Article.reads:{Article.objects.create().pk}",
    }


@pytest.fixture
def keys(fields: dict[str, str]) -> dict[str, str]:
    """The key of one counter of each of `KINDS`."""
    return {**NAMED, **fields}


@pytest.fixture
def case(request: pytest.FixtureRequest, keys: dict[str, str]) -> Any:
    """A request of `asking.CASES`."""
    from tests.rest import asking

    return asking.case_of(request.param, keys)


@pytest.fixture
def client(as_: As) -> Client:
    """Somebody who may do everything."""
    return as_("superuser")


@pytest.fixture
def as_(db: None) -> As:
    """A client of a role of `ROLES`: ``as_("staff")``. Each call is somebody else, logged in."""

    def client(role: str, **options: Any) -> Client:
        found = Client(**options)
        if role != "anonymous":
            found.force_login(_somebody(role))
        return found

    return client


def _somebody(role: str) -> User:
    user = User.objects.create_user(
        f"{role}{User.objects.count()}",
        is_staff=role in ("staff", "superuser"),
        is_superuser=role == "superuser",
    )
    if role == "permitted":
        may = [f"{verb}_counter" for verb in ("view", "increment", "decrement", "hold", "adjust")]
        may.append("approve_adjustment")
        found = Permission.objects.filter(
            content_type__app_label__startswith="django_counters", codename__in=may
        )
        assert found.count() == len(may)
        user.user_permissions.set(found)
    return user


def problem(response: Any, status: int, name: str = "") -> dict[str, Any]:
    """The body of an answer, which has to be this problem."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "no-store"
    body: dict[str, Any] = response.json()
    assert body["type"] == (f"urn:django-counters:{name}" if name else "about:blank")
    assert body["status"] == status
    return body


@pytest.fixture
def two_people(namespaces: None) -> Iterator[None]:
    """Large adjustments of stock need a second person: `two.POLICY`."""
    from tests.rest import two

    with override_counters(stock=two.POLICY):
        yield


@pytest.fixture
def clerk(db: None) -> Client:
    """Somebody who may ask for adjustments."""
    from tests.rest import two

    return two.come("clerk")


@pytest.fixture
def boss(db: None) -> Client:
    """Somebody who may decide on them."""
    from tests.rest import two

    return two.come("boss")
