"""The admin in a browser: found by hand and by keyboard, without a complaint of the browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from django.urls import reverse

from django_counters.models import Counter, CounterIncident, CounterShard
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters
from django_counters.upkeep.flush import flush
from tests.browser.conftest import PASSWORD
from tests.browser.watching import Complaints, go_with_keys, picture

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
    record(CounterIncident.Kind.DRIFT, "orders:eu", {"expected": 1, "found": 2}, "default")
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
        "manage.py counters rollup",
        "manage.py counters verify",
    ]
    picture(page, "overview")


def test_the_overview_is_reached_with_the_keyboard_alone(
    page: Page, person: User, log_in: LogIn, overview: str
) -> None:
    log_in(person)
    page.goto(reverse("admin:app_list", args=["django_counters"]))
    go_with_keys(page, "Overview of all counters")
    assert page.url.endswith(overview)
    CounterIncident.objects.create(kind="drift", subject="orders:eu")
    page.reload()
    go_with_keys(page, "All incidents")
    page.get_by_role("heading", level=1).wait_for()
    assert page.get_by_text("orders:eu").is_visible()


def test_find_a_counter(page: Page, person: User, log_in: LogIn) -> None:
    Counter.objects.increment_many({"views:a": 7, "views:b": 1, "likes:a": 12345})
    log_in(person)
    page.goto(reverse("admin:django_counters_counter_changelist"))
    page.locator("#searchbar").fill("likes")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**?q=likes")
    rows = page.locator("#result_list tbody tr")
    assert rows.count() == 1
    assert "likes:a" in rows.inner_text()
    assert "12345" in rows.inner_text()


class TestComplaints:
    """What watches the page is no good if it sees nothing."""

    def test_the_policy_forbids_what_is_inline(
        self, page: Page, complaints: Complaints, person: User, log_in: LogIn, overview: str
    ) -> None:
        log_in(person)
        page.goto(overview)
        assert complaints.all == []
        page.evaluate("document.body.setAttribute('style', 'color: red')")
        page.evaluate("document.body.appendChild(document.createElement('script')).text = '1'")
        page.wait_for_function("document.body.lastChild.tagName == 'SCRIPT'")
        told = " ".join(complaints.all)
        assert "policy: style-src-attr" in told
        assert "policy: script-src-elem" in told
        complaints.all.clear()

    def test_errors_and_answers_are_noticed(
        self, page: Page, complaints: Complaints, person: User, log_in: LogIn, overview: str
    ) -> None:
        log_in(person)
        with complaints.expecting(404):
            page.goto(f"{overview}?database=nowhere")
        assert complaints.all == []
        page.goto(f"{overview}?database=nowhere")
        assert any("answer: " in each for each in complaints.all)
        complaints.all.clear()
        page.goto(overview)
        with page.expect_event("pageerror"):
            page.evaluate("() => { queueMicrotask(() => { throw new Error('broken') }) }")
        assert complaints.all == ["script: broken"]
        complaints.all.clear()
