"""The database check names members and sets that are left; fields name the app that is absent."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import modify_settings

from django_counters.checks import check_databases
from django_counters.fields import CounterField
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.upkeep import forget_actor

pytestmark = pytest.mark.django_db
APP = "django_counters.contrib.uniques"


def errors() -> list[str]:
    """Without the checks of fields: those of the tests were made while the app was there."""
    return [one.msg for one in check_databases(databases=["default"]) if one.id == "counters.E063"]


def test_people_are_not_left_behind() -> None:
    with override_counters(visits={"UNIQUE": ["day"]}):
        Counter.objects.increment("visits:site", who="ann")
    assert errors() == []
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        forget_actor("ann")
        [message] = errors()
    assert message.startswith(f"{APP!r} isn't installed, and its tables still have members")
    assert message.endswith("run manage.py migrate django_counters_uniques zero.")
    forget_actor("ann")
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        assert errors() == []


def test_periods_of_a_field_make_no_unique_column() -> None:
    """Django has a flag of this name."""
    with (
        modify_settings(INSTALLED_APPS={"remove": APP}),
        pytest.raises(ImproperlyConfigured, match=f"unique needs '{APP}' in INSTALLED_APPS"),
    ):
        CounterField(unique=["day"])
