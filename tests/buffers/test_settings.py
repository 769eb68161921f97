"""What is wrong with BUFFER, and what comes of it in a project without the app."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import modify_settings, override_settings

from django_counters import contrib
from django_counters.checks import check_setting
from django_counters.contrib import buffers
from django_counters.errors import InvalidConfiguration
from django_counters.jobs import jobs
from django_counters.models import Counter

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"BUFFER": 1}, "BUFFER is a dictionary"),
    ({"BUFFER": {"second": 1}}, "Did you mean 'seconds'?"),
    ({"BUFFER": {"seconds": 0}}, "'seconds' is a number of seconds"),
    ({"BUFFER": {"most": 0}}, "'most' is an integer from 1 to 1000000, not 0"),
    ({"BUFFER": {"most": True}}, "not True"),
    ({"BUFFER": {"directory": "var/counters"}}, "is the absolute path"),
    ({"BUFFER": {"directory": 7}}, "is the absolute path of a directory, not 7"),
    ({"BUFFER": {"directory": "/a", "seconds": 9000}}, "'seconds' is 3600"),
    ({"BUFFER": {}, "FLOOR": 0}, "cannot stand beside FLOOR"),
    ({"BUFFER": {}, "CEILING": 9}, "cannot stand beside CEILING"),
    ({"BUFFER": {}, "CEILING": {"day": 9}}, "cannot stand beside CEILING"),
    ({"BUFFER": {}, "UNIQUE": ["day"]}, "cannot stand beside UNIQUE"),
    ({"BUFFER": {}, "ONCE": True}, "cannot stand beside ONCE"),
    ({"BUFFER": {}, "TOP": ["day"]}, "cannot stand beside TOP"),
    ({"BUFFER": {}, "STRATEGY": "ledger"}, "ledger keeps each of them"),
    ({"BUFFER": {}, "STRATEGY": "cached"}, "Remove BUFFER, or set STRATEGY to"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_a_wrong_declaration_is_a_check_error_and_counts_nothing(
    options: dict[str, Any], message: str
) -> None:
    with override_settings(COUNTERS={"hits": options}):
        (error,) = check_setting()
        # Without a database at hand: nothing is asked of it.
        with pytest.raises(InvalidConfiguration) as caught:
            Counter.objects.increment("stock:a")
    assert error.id == "counters.E040"
    assert message in error.msg
    assert message in str(caught.value)
    assert str(error.hint).startswith("Write BUFFER as the message says")


def test_without_the_app_the_option_names_it() -> None:
    with (
        modify_settings(INSTALLED_APPS={"remove": buffers.__name__}),
        override_settings(COUNTERS={"hits": {"BUFFER": {}}}),
    ):
        found = [one for one in run_checks() if str(one.id).startswith("counters.")]
        with pytest.raises(InvalidConfiguration) as caught:
            Counter.objects.increment("hits:home")
    needs = f"COUNTERS['hits']: BUFFER needs '{contrib.__name__}.buffers' in INSTALLED_APPS."
    assert [(one.id, one.msg) for one in found] == [("counters.E062", needs)]
    assert needs in str(caught.value)


def test_files_are_flushed_before_the_rollup() -> None:
    order = ["buffers", "flush", "rollup"]
    assert [name for name in jobs() if name in order] == order


# A child that is forked while a thread imports something would wait for that thread for ever.
READY = """
import sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=[
        "django_counters.contrib.buffers",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django_counters",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    COUNTERS={"hits": %s},
)
django.setup()
before = set(sys.modules)
from django_counters.registry import registry
registry.policies()
print(sorted(set(sys.modules) - before), "django_counters.contrib.buffers.process" in before)
"""


@pytest.mark.parametrize(
    ("options", "loaded"), [({"BUFFER": {}}, True), ({"FLOOR": 0}, False)], ids=["with", "without"]
)
def test_a_process_that_begins_imports_it_if_a_buffer_is_declared(
    options: dict[str, Any], loaded: bool
) -> None:
    command = [sys.executable, "-c", READY % options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"[] {loaded}\n", done.stderr
