"""The admin on a desk and on a telephone: nothing is cut off, and nothing has to be scrolled to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User

from tests.browser.places import addresses, large_counters

if TYPE_CHECKING:
    from playwright.sync_api import Page

LogIn = Callable[[User], None]
pytestmark = pytest.mark.django_db(transaction=True)
# What is wider than what shows it: the page itself, and each list. On a telephone, tables scroll.
_CUT_OFF = """
scrolls => [document.documentElement, ...document.querySelectorAll(".results, .module")]
    .filter(e => e.scrollWidth > e.clientWidth + 1)
    .filter(e => !(scrolls && ["auto", "scroll"].includes(getComputedStyle(e).overflowX)))
    .map(e => `${e.tagName} ${e.className}: ${e.scrollWidth} > ${e.clientWidth}`)
"""


@pytest.fixture(autouse=True)
def counters(transactional_db: None) -> Iterator[None]:
    with large_counters():
        yield


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_nothing_is_cut_off(page: Page, log_in: LogIn, width: int, height: int) -> None:
    log_in(User.objects.create_superuser("boss"))
    page.set_viewport_size({"width": width, "height": height})
    wide = {}
    for name, address in addresses().items():
        page.goto(address)
        wide[name] = page.evaluate(_CUT_OFF, width < 500)
    assert {name: found for name, found in wide.items() if found} == {}
