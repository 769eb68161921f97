"""While the app is removed and its table is there, the check of the database names what it has."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.test import modify_settings

from django_counters.contrib import holds
from django_counters.models import Counter

pytestmark = pytest.mark.django_db
APP = "django_counters.contrib.holds"
MESSAGE = (
    f"{APP!r} isn't installed, and its tables still have {{}}. To do without it, {{}}, then run "
    "manage.py migrate django_counters_holds zero."
)


def errors() -> list[str]:
    found = run_checks(databases=["default"])
    return [one.msg for one in found if one.id == "counters.E063"]


def test_open_holds_are_not_left_behind() -> None:
    Counter.objects.increment("stock:lamp", 5)
    hold = holds.hold("stock:lamp", 2)
    sold = holds.hold("stock:lamp", 1)
    assert errors() == []
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        assert errors() == [MESSAGE.format("open holds (2)", "commit or release them")]
    assert hold.release()
    sold.commit()
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        assert errors() == []
