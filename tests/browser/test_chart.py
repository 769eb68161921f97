"""The page of one counter in a browser: its chart, and the numbers for who cannot see it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.urls import reverse

from django_counters import clock
from django_counters.contrib.series.models import CounterSample
from django_counters.models import Counter
from django_counters.testing import override_counters

if TYPE_CHECKING:
    from playwright.sync_api import Page

LogIn = Callable[[User], None]
# The server is another thread, with connections of its own.
pytestmark = pytest.mark.django_db(transaction=True)
KEY = "hits:</script><b>'\"/größe"


@pytest.fixture
def address(transactional_db: None) -> str:
    Counter.objects.create(key=KEY, value=25)
    hour = clock.now().replace(minute=0, second=0, microsecond=0)
    for ago, value in ((30, 5), (20, 9), (7, 31), (2, 25)):
        CounterSample.objects.create(key=KEY, moment=hour - timedelta(hours=ago), value=value)
    return reverse("admin:django_counters_counter_change", args=[quote(KEY)])


def test_the_chart_is_drawn_and_has_its_numbers_beside_it(
    page: Page, person: User, log_in: LogIn, address: str
) -> None:
    log_in(person)
    with override_counters(hits={"HISTORY": "1h"}):
        page.goto(address)
        assert page.get_by_role("heading", level=1).inner_text() == KEY
        assert page.locator(".counters-bars rect[fill]").count() == 3
        table = page.get_by_role("table", name="went, the latest first")
        assert not table.is_visible()
        page.get_by_text("The numbers of the chart").focus()
        page.keyboard.press("Enter")
        assert table.is_visible()
        assert table.get_by_role("row").count() == 25
        assert table.get_by_role("cell", name="22", exact=True).count() == 1
        page.get_by_role("link", name="Days").click()
        page.wait_for_url("**?by=day")
        page.locator(".counters-bars").wait_for()


def test_bars_by_tag_fit_a_telephone(page: Page, person: User, log_in: LogIn) -> None:
    with override_counters(visits={"PER": ["hour", "day"], "TAGS": {"country": 50}}):
        for number in range(14):
            ago = timedelta(days=number % 5)
            tags = {"country": f"Country {number}"}
            Counter.objects.increment("visits:a", 20 + number, at=clock.now() - ago, tags=tags)
        log_in(person)
        page.set_viewport_size({"width": 390, "height": 844})
        address = reverse("admin:django_counters_counter_change", args=[quote("visits:a")])
        page.goto(f"{address}?by=day")
        page.get_by_role("link", name="country").click()
        page.wait_for_url("**?by=day&split=country")
        picture = page.get_by_role("img", name="Chart of visits:a")
        assert 250 < picture.bounding_box()["width"] <= 390  # type: ignore[index]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        smallest = "Math.min(...[...document.querySelectorAll('.counters-bars text')]"
        smallest += ".map(text => text.getBoundingClientRect().height))"
        assert page.evaluate(smallest) > 10
        assert page.locator(".counters-legend li").count() == 11
        page.get_by_text("The numbers of the chart").click()
        assert page.get_by_role("columnheader", name="(other)").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
