"""The database check names the rows of a removed app whose table is left."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.test import modify_settings

from django_counters.contrib import holds
from django_counters.models import Counter
from django_counters.upkeep import forget_actor

pytestmark = pytest.mark.django_db
APP = "django_counters.contrib.holds"
MESSAGE = (
    f"{APP!r} isn't installed, and its tables still have {{}}. To do without it, add it again, "
    "{}, run manage.py migrate django_counters_holds zero, and remove it."
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


def test_a_counter_is_not_forgotten_without_its_holds() -> None:
    """Else a hold that expires later would be given to another counter of this key."""
    Counter.objects.increment("stock:lamp", 5)
    holds.hold("stock:lamp", 2)
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        Counter.objects.forget("stock:lamp")
        assert errors() == [MESSAGE.format("open holds (1)", "commit or release them")]
    Counter.objects.forget("stock:lamp")
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        assert errors() == []


def test_a_person_is_not_forgotten_without_their_holds() -> None:
    Counter.objects.increment("stock:lamp", 5)
    holds.hold("stock:lamp", 2, who="ann").release()
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        forget_actor("ann")
        assert errors() == [MESSAGE.format("holds with an actor (1)", "copy what you need of them")]
    forget_actor("ann")
    with modify_settings(INSTALLED_APPS={"remove": APP}):
        assert errors() == []
