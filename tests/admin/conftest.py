"""Fixtures of the tests of the admin: who looks at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_counters import clock
from django_counters.models import Counter

Login = Callable[..., Client]
# Not a word of it is taken for HTML.
EVIL = "\"'><img/src=x/onerror=alert(1)><script>alert(1)</script>"
# A strategy whose Redis cannot be reached.
DEAD: dict[str, Any] = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}


def make(*keys: str, value: int = 0) -> None:
    """Rows of counters, whatever their namespaces count in."""
    now = clock.now()
    Counter.objects.bulk_create([Counter(key=key, value=value, updated_at=now) for key in keys])


@pytest.fixture
def login(db: None) -> Login:
    """Logs a new member of the staff in who has these permissions of the app, and no others."""

    def log_in(*permissions: str, name: str = "", superuser: bool = False) -> Client:
        name = name or f"user{User.objects.count()}"
        user = User.objects.create_user(name, is_staff=True, is_superuser=superuser)
        found = Permission.objects.filter(
            content_type__app_label="django_counters", codename__in=permissions
        )
        assert found.count() == len(permissions), f"not all of {permissions} exist"
        user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def viewer(login: Login) -> Client:
    """Somebody who may look at everything of the app."""
    return login("view_counter", "view_counteradjustment", "view_counterincident", name="viewer")


@pytest.fixture
def root(login: Login) -> Client:
    """Somebody who may do everything that can be done."""
    return login(name="root", superuser=True)


@pytest.fixture
def nobody(login: Login) -> Client:
    """Somebody of the staff, without any permission."""
    return login(name="nobody")
