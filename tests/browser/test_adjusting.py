"""Adjusting a counter in a browser: the form, its preview, and a second person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from django_counters import clock
from django_counters.contrib import holds
from django_counters.models import Counter, CounterAdjustment, CounterDelta
from django_counters.testing import override_counters
from django_counters.tokens import mint
from example_project.shop.models import Product
from tests.browser.watching import go_with_keys, picture

if TYPE_CHECKING:
    from playwright.sync_api import Page

LogIn = Callable[[User], None]
pytestmark = pytest.mark.django_db(transaction=True)
KEY = "orders:shop"
# What was ordered in each of the last 24 hours.
A_DAY = (2, 1, 1, 2, 3, 4, 6, 8, 9, 7, 6, 5, 7, 8, 9, 10, 8, 6, 5, 4, 3, 3, 2, 1)
WHY = "Two orders were tests of the cash desk"


def member(name: str, *permissions: str) -> User:
    """Somebody of the staff who may look at counters, and do this."""
    user = User.objects.create_user(name, is_staff=True)
    wanted = ("view_counter", "view_counteradjustment", "view_adjustmentrequest", *permissions)
    app = Permission.objects.filter(content_type__app_label="django_counters")
    user.user_permissions.set(app.filter(codename__in=wanted))
    return user


@pytest.fixture
def clerk(transactional_db: None) -> User:
    return member("clerk", "adjust_counter")


@pytest.fixture(autouse=True)
def orders(transactional_db: None) -> Iterator[None]:
    """A ledger; by more than 50 one person alone may not adjust it."""
    with override_counters(orders={"STRATEGY": "ledger", "APPROVE_ABOVE": 50}):
        now = clock.utc()
        for hours, by in enumerate(reversed(A_DAY)):
            CounterDelta.objects.append(KEY, by, token=mint(now - timedelta(hours=hours)))
        yield


def ask(page: Page, *, how: str, number: int, reason: str = WHY) -> None:
    """Fill in the form and look at the preview."""
    query = urlencode({"field": "", "key": KEY})
    page.goto(f"{reverse('admin:django_counters_adjust')}?{query}")
    page.get_by_label(how).check()
    page.get_by_label("Number").fill(str(number))
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Preview").click()


def numbers(page: Page) -> list[str]:
    """Current, new, and change, as the preview shows them."""
    page.get_by_role("table", name="What would be done").wait_for()
    names = ("before", "after", "delta")
    return [page.locator(f"td.counters-{name}").inner_text() for name in names]


def confirm(page: Page) -> None:
    page.get_by_role("button", name="Confirm").click()


def test_find_a_counter_adjust_it_and_see_what_became_of_it(
    page: Page, clerk: User, log_in: LogIn
) -> None:
    log_in(clerk)
    page.goto(reverse("admin:django_counters_counter_changelist"))
    page.get_by_role("textbox", name="Search").fill("shop")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=KEY).click()
    page.get_by_role("link", name="Adjust", exact=True).click()
    page.get_by_label("the change").check()
    page.get_by_label("Number").fill("-2")
    page.get_by_label("Reason").fill(WHY)
    page.get_by_label("Case").fill("T-81")
    page.get_by_role("button", name="Preview").click()
    assert numbers(page) == ["120", "118", "-2"]
    assert Counter.objects.value(KEY) == 120
    picture(page, "adjust")
    confirm(page)
    page.get_by_text("was adjusted from 120 to 118").wait_for()
    assert Counter.objects.value(KEY) == 118
    row = CounterAdjustment.objects.get()
    assert (row.actor_name, row.reason, row.case) == ("clerk", WHY, "T-81")
    page.locator(".counters-bars").wait_for()
    picture(page, "counter")


def test_give_back_what_is_held_of_a_record(page: Page, log_in: LogIn) -> None:
    lamp = Product.objects.create(name="Lamp", slug="lamp", price=19, stock=5)
    holds.hold(lamp.stock, 2)
    log_in(User.objects.create_superuser("anna"))
    page.goto(reverse("admin:shop_product_change", args=(lamp.pk,)))
    page.get_by_label("Reason").fill(WHY)
    # It is not covered by the form of the record.
    page.get_by_role("button", name="Give back").click()
    page.get_by_text("Gave back 2: adjustment 1.").wait_for()
    assert lamp.stock.value() == 5


def test_with_the_keyboard_alone(page: Page, clerk: User, log_in: LogIn) -> None:
    log_in(clerk)
    page.goto(reverse("admin:django_counters_counter_change", args=["orders_3Ashop"]))
    go_with_keys(page, "Adjust")
    # The cursor comes into the first field that has to be filled in, when the page is drawn.
    page.locator("input:focus").wait_for()
    page.keyboard.type("119")
    page.keyboard.press("Tab")
    page.keyboard.type(WHY)
    go_with_keys(page, "Preview")
    assert numbers(page) == ["120", "119", "-1"]
    # Whoever goes back from the preview is in the field that matters, too.
    go_with_keys(page, "Back")
    page.locator("input[name=number]:focus").wait_for()
    go_with_keys(page, "Preview")
    go_with_keys(page, "Confirm")
    page.get_by_text("was adjusted from 120 to 119").wait_for()


def test_what_is_too_much_for_one_person_waits_for_a_second(
    page: Page, clerk: User, log_in: LogIn
) -> None:
    log_in(clerk)
    ask(page, how="the new value", number=20)
    page.get_by_role("button", name="Ask a second person").click()
    page.get_by_text("waits for a second person").wait_for()
    assert Counter.objects.value(KEY) == 120
    requests = reverse("admin:django_counters_adjustmentrequest_changelist")
    page.goto(requests)
    page.get_by_role("link", name=KEY).first.click()
    page.get_by_text("You have asked for it, so somebody else has to decide").wait_for()
    log_in(member("boss", "approve_adjustment"))
    page.goto(requests)
    page.get_by_role("link", name=KEY).first.click()
    assert numbers(page) == ["120", "20", "-100"]
    picture(page, "request")
    approve = page.get_by_role("button", name="Approve")
    box = approve.bounding_box()
    # It is seen without scrolling.
    assert box
    assert box["y"] + box["height"] < 800
    approve.click()
    page.get_by_text("was adjusted from 120 to 20").wait_for()
    row = CounterAdjustment.objects.get()
    assert (row.actor_name, row.approver_name, row.after) == ("clerk", "boss", 20)
