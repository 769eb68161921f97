"""Without the app of series, its options are refused, and the message names the app."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import modify_settings

from django_counters.access import access_of, access_problems
from django_counters.conf import problems
from django_counters.fields import CounterField
from django_counters.redis.keys import cell_in

APP = "django_counters.contrib.series"
# They need it.
OTHERS = ["django_counters.contrib.top", "django_counters.contrib.uniques"]
OPTIONS: list[tuple[str, str, Any, str]] = [
    ("ceiling", "E036", {"day": 5}, "a ceiling of periods"),
    *(
        (name, "E062", value, name.upper())
        for name, value in {
            "per": ["day"],
            "tags": {"country": 3},
            "keep": {"day": 9},
            "occurrences": ["day"],
        }.items()
    ),
]


@pytest.mark.parametrize(("name", "code", "value", "what"), OPTIONS)
def test_a_namespace_names_the_app(name: str, code: str, value: Any, what: str) -> None:
    declared = {"calls": {name.upper(): value}}
    assert code not in [problem.code for problem in problems(declared)]
    with modify_settings(INSTALLED_APPS={"remove": [APP, *OTHERS]}):
        [problem] = problems(declared)
    assert problem.code == code
    assert problem.message == f"COUNTERS['calls']: {what} needs {APP!r} in INSTALLED_APPS."


@pytest.mark.parametrize(("name", "code", "value", "what"), OPTIONS)
def test_so_does_a_field(name: str, code: str, value: Any, what: str) -> None:
    with (
        modify_settings(INSTALLED_APPS={"remove": [APP, *OTHERS]}),
        pytest.raises(ImproperlyConfigured, match=f"(?i){what} needs {APP!r} in INSTALLED_APPS"),
    ):
        CounterField(**{name: value})


def test_a_ceiling_of_the_value_needs_no_app() -> None:
    with modify_settings(INSTALLED_APPS={"remove": [APP, *OTHERS]}):
        assert list(problems({"calls": {"CEILING": 5}})) == []
        assert CounterField(ceiling=5).bounds.ceiling == 5


@pytest.mark.parametrize("other", OTHERS)
def test_apps_that_need_it_name_it(other: str) -> None:
    script = f"""
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django_counters", {other!r}])
django.setup()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1].endswith(f"Add {APP!r} to INSTALLED_APPS.")


def test_nobody_knows_the_table_of_a_cell_in_redis() -> None:
    """A flush quarantines what nobody can read."""
    field = "#1.3.1767225600 DE hits:a"
    assert cell_in(field)
    with (
        modify_settings(INSTALLED_APPS={"remove": [APP, *OTHERS]}),
        pytest.raises(ValueError, match=field),
    ):
        cell_in(field)


def test_a_history_is_read_by_anyone_and_creates_nothing() -> None:
    declared = {"history": "anyone"}
    assert list(access_problems(declared)) == []
    assert not access_of(declared).creates
    with modify_settings(INSTALLED_APPS={"remove": [APP, *OTHERS]}):
        assert [f"history needs {APP!r}" in one for one in access_problems(declared)] == [True]
