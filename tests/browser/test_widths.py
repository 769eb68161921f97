"""The admin on a desk and on a telephone: nothing is cut off, and nothing has to be scrolled to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.urls import reverse

from django_counters.adjustments.approval import ask
from django_counters.models import AdjustmentRequest, Counter
from django_counters.testing import override_counters
from django_counters.write.change import named

if TYPE_CHECKING:
    from playwright.sync_api import Page

LogIn = Callable[[User], None]
pytestmark = pytest.mark.django_db(transaction=True)
KEY = "orders:warehouse-north:2026-11-26:returns"
LARGE = 987_654_321_098
# What is wider than what shows it: the page itself, and each list. On a telephone, tables scroll.
_CUT_OFF = """
scrolls => [document.documentElement, ...document.querySelectorAll(".results, .module")]
    .filter(e => e.scrollWidth > e.clientWidth + 1)
    .filter(e => !(scrolls && ["auto", "scroll"].includes(getComputedStyle(e).overflowX)))
    .map(e => `${e.tagName} ${e.className}: ${e.scrollWidth} > ${e.clientWidth}`)
"""


@pytest.fixture(autouse=True)
def orders(transactional_db: None) -> Iterator[None]:
    """Counters with large values and long keys, adjustments, and requests that wait."""
    policy = {"STRATEGY": "ledger", "APPROVE_ABOVE": 50}
    with override_counters(orders=policy, views={"STRATEGY": "sharded"}):
        Counter.objects.increment_many({KEY: LARGE, "orders:b": 7})
        for number in range(25):
            Counter.objects.increment(f"views:{number}", LARGE)
        for by in (1, -2):
            Counter.objects.adjust(KEY, by=by, reason="Tests of the cash desk", actor="clerk")
        value = Counter.objects.value(KEY)
        ask(named(KEY), to=20, expected=value, reason="counted by hand", actor="clerk", case="T-81")
        yield


def addresses() -> dict[str, str]:
    """The pages of the app, by what they are."""
    lists = {
        name: reverse(f"admin:django_counters_{name}_changelist")
        for name in ("counter", "counteradjustment", "adjustmentrequest", "counterincident")
    }
    form = f"{reverse('admin:django_counters_adjust')}?{urlencode({'field': '', 'key': KEY})}"
    request = AdjustmentRequest.objects.get().pk
    return {
        **lists,
        "by value": f"{lists['counter']}?o=-1",
        "overview": reverse("admin:django_counters_overview"),
        "page": reverse("admin:django_counters_counter_change", args=[quote(KEY)]),
        "form": form,
        "request": reverse("admin:django_counters_adjustmentrequest_change", args=[request]),
    }


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_nothing_is_cut_off(page: Page, log_in: LogIn, width: int, height: int) -> None:
    log_in(User.objects.create_superuser("boss"))
    page.set_viewport_size({"width": width, "height": height})
    wide = {}
    for name, address in addresses().items():
        page.goto(address)
        wide[name] = page.evaluate(_CUT_OFF, width < 500)
    assert {name: found for name, found in wide.items() if found} == {}
