"""What the app of series leaves behind is named, and periods that are gone never read as zeros."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import modify_settings

from django_counters.contrib.series import CounterCell
from django_counters.models import Counter, CounterMeasure
from django_counters.testing import override_counters

APP = "django_counters.contrib.series"
OTHERS = ["django_counters.contrib.top", "django_counters.contrib.uniques"]
DAILY = {"views": {"PER": ["day"]}}


def errors() -> list[str]:
    found = run_checks(databases=["default"])
    return [one.msg for one in found if one.id == "counters.E063"]


@pytest.mark.django_db
def test_cells_are_not_left_behind() -> None:
    with override_counters(**DAILY):
        Counter.objects.increment("views:site")
    assert errors() == []
    with modify_settings(INSTALLED_APPS={"remove": [APP, *OTHERS]}):
        [message] = errors()
    assert message == (
        f"{APP!r} isn't installed, and its tables still have cells, values of tags and recorded "
        "totals (1). To do without it, add it again, copy what you need of them and delete them, "
        "run manage.py migrate django_counters_series zero, and remove it."
    )
    CounterCell.objects.all().delete()
    with modify_settings(INSTALLED_APPS={"remove": [APP, *OTHERS]}):
        assert errors() == []


@pytest.mark.django_db(transaction=True)
def test_periods_whose_cells_are_dropped_are_forgotten() -> None:
    with override_counters(**DAILY):
        Counter.objects.increment("views:site")
    assert CounterMeasure.objects.get(name="views").periods == {"day": None}
    try:
        call_command("migrate", "django_counters_series", "zero", verbosity=0)
        assert CounterMeasure.objects.get(name="views").periods == {}
    finally:
        call_command("migrate", verbosity=0)
