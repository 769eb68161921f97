"""The admin in a browser: found by hand and by keyboard, without a complaint of the browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from django.urls import reverse

from django_counters.cached.flush import flush
from django_counters.models import Counter, CounterIncident, CounterShard
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters
from tests.browser.conftest import PASSWORD
from tests.browser.watching import picture

if TYPE_CHECKING:
    from playwright.sync_api import Page

LogIn = Callable[[User], None]
# The server is another thread, with connections of its own.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def overview() -> str:
    return reverse("admin:django_counters_overview")


@pytest.fixture
def busy(cached: str) -> Iterator[None]:
    """Something has landed, something waits, and something has to be done."""
    Counter.objects.increment_many({f"views:{number}": 3 for number in range(40)})
    flush()
    Counter.objects.increment("views:a")
    CounterShard.objects.increment("likes:a", 3)
    record(CounterIncident.Kind.DRIFT, "orders:eu", {"expected": 1, "actual": 2}, "default")
    orders = {"STRATEGY": "ledger"}
    with override_counters(orders=orders):
        Counter.objects.increment_many({f"orders:{place}": 5 for place in ("eu", "us", "jp")})
    # How the Redis of the tests is set up is nobody's concern here.
    with override_settings(SILENCED_SYSTEM_CHECKS=["counters.W012", "counters.W013"]):
        yield


def test_log_in_and_see_what_has_to_be_done(
    page: Page, person: User, overview: str, busy: None
) -> None:
    page.goto(overview)
    page.get_by_label("Username").fill(person.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"**{overview}")
    assert page.get_by_role("heading", level=1).inner_text() == "Overview"
    problems = page.get_by_role("table", name="Problems, and the command to run for each")
    page.get_by_role("cell", name="12.0", exact=True).wait_for()
    assert problems.locator("code").all_inner_texts() == [
        "manage.py counters upkeep rollup",
        "manage.py counters verify",
    ]
    picture(page, "overview")
