"""The database check names the ranks that are left."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.test import modify_settings

from django_counters.contrib.top import CounterRank
from django_counters.models import Counter
from django_counters.testing import override_counters

pytestmark = pytest.mark.django_db
APP = "django_counters.contrib.top"


def errors() -> list[str]:
    found = run_checks(databases=["default"])
    return [one.msg for one in found if one.id == "counters.E063"]


def test_ranks_are_not_left_behind() -> None:
    with override_counters(views={"TOP": ["day", "week"]}):
        Counter.objects.increment("views:site")
    assert errors() == []
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        Counter.objects.forget("views:site")
        [message] = errors()
    assert message == (
        f"{APP!r} isn't installed, and its tables still have ranks (2). To do without it, add it "
        "again, copy what you need of them and delete them, run manage.py migrate "
        "django_counters_top zero, and remove it."
    )
    CounterRank.objects.all().delete()
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        assert errors() == []
