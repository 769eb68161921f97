"""What `REST_FRAMEWORK` declares for all views of a project holds for these, too."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from rest_framework.permissions import AllowAny, IsAuthenticatedOrReadOnly

from django_counters.rest.base import CounterView
from tests.rest.conftest import As

# A project of its own: nothing of REST framework is imported before its settings are read.
PROJECT = """
import json, sys
import django
from django.conf import settings
from django.core.management import call_command
api = {"read": "anyone", "history": "anyone", "increment": "beacon", "limit": "9/min"}
settings.configure(
    ALLOWED_HOSTS=["testserver"],
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django.contrib.auth", "django_counters",
        "django_counters.contrib.limits", "django_counters.contrib.series",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    COUNTERS={"hits": {"API": {**api, "origins": ["https://example.org"]}}},
    REST_FRAMEWORK=json.loads(sys.argv[1]),
    ROOT_URLCONF="tests.rest.urls",
    SECRET_KEY="x",
)
django.setup()
call_command("migrate", verbosity=0)
from django.test import Client
client = Client(raise_request_exception=False)
origin = {"HTTP_ORIGIN": "https://example.org"}
told = []
for path in ("counters/hits:a", "counters/hits:a/exact", "counters/hits:a/history"):
    answer = client.get(f"/api/v1/{path}")
    told.append([answer.status_code, answer.get("Cache-Control"), answer.get("Vary")])
counted = client.post("/api/v1/counters/hits:a/increment", {}, "application/json", **origin)
told.append([counted.status_code])
from django_counters.models import Counter
told.append(Counter.objects.value("hits:a"))
print(json.dumps(told))
"""
# Both are read while REST framework is imported, as documented.
OPEN = {
    "DEFAULT_PERMISSION_CLASSES": [
        "django_counters.rest.permissions.MayRead",
        # It asks for the permissions of a model, and these views have none.
        "rest_framework.permissions.DjangoModelPermissionsOrAnonReadOnly",
    ],
    "DEFAULT_THROTTLE_CLASSES": ["django_counters.contrib.limits.rest.LimitThrottle"],
    "DEFAULT_THROTTLE_RATES": {"counters": "9/min"},
}
CLOSED = {"DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"]}
VARY = "Authorization, Cookie"
ADMITTED = [[200, f"private, {lasts}", VARY] for lasts in ("max-age=5", "no-cache", "max-age=60")]


@pytest.mark.parametrize(
    ("framework", "expected"),
    [(OPEN, [*ADMITTED, [200], 1]), (CLOSED, [*[[403, "no-store", None]] * 3, [403], 0])],
)
def test_defaults_of_the_project(framework: dict[str, Any], expected: list[Any]) -> None:
    command = [sys.executable, "-c", PROJECT, json.dumps(framework)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


@pytest.mark.django_db
@pytest.mark.urls("tests.rest.urls")
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(
    ("classes", "whose"),
    [([], "public"), ([AllowAny], "public"), ([AllowAny, IsAuthenticatedOrReadOnly], "private")],
)
def test_only_what_nobody_is_kept_from_is_public(
    classes: list[Any], whose: str, as_: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CounterView, "permission_classes", classes)
    for action in ("", "exact", "history"):
        answer = as_("anonymous").at("likes:a", action)
        assert answer["Cache-Control"].startswith(f"{whose}, ")
        assert answer["Vary"] == VARY
