"""A project without the app of limits is told what to add, and no rate is left out silently."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.test import modify_settings

from django_counters.conf import problems
from django_counters.errors import InvalidConfiguration
from django_counters.rest.targets import expose
from django_counters.testing import override_counters
from tests.extension.apps import Moods
from tests.extension.models import Party

APP = "django_counters.contrib.limits"
NEEDS = f"needs '{APP}' in INSTALLED_APPS."
USES = """
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django_counters"])
django.setup()
from django_counters.contrib.limits import Limit
"""


@pytest.mark.parametrize("option", [{"limit": "9/min"}, {"network_limits": {48: "9/min"}}])
def test_a_rate_of_the_api_needs_the_app(option: dict[str, object]) -> None:
    declared = {"likes": {"API": {"increment": "authenticated", **option}}}
    assert list(problems(declared)) == []
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        (problem,) = problems(declared)
    assert problem.code == "E026"
    assert problem.message == f"COUNTERS['likes']: API: {next(iter(option))} {NEEDS}"


def test_so_does_one_of_a_field() -> None:
    with (
        modify_settings(INSTALLED_APPS={"remove": APP}),
        override_counters(),
        pytest.raises(InvalidConfiguration, match="limit needs"),
    ):
        expose(Party, "guests", increment="authenticated", limit="9/min")


def test_an_import_names_the_app() -> None:
    call = [sys.executable, "-c", USES]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    *_, last = done.stderr.splitlines()
    assert last.endswith(f"ImproperlyConfigured: Add '{APP}' to INSTALLED_APPS.")


def test_another_app_that_is_asked_before_changes_keeps_no_rates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Moods, "charge", "tests.extension.work.charge")
    declared = {"likes": {"API": {"increment": "authenticated", "limit": "9/min"}}}
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        (problem,) = problems(declared)
    assert problem.message == f"COUNTERS['likes']: API: limit {NEEDS}"
