"""What axe finds in our pages: nothing, light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from example_project.blog.models import Post
from example_project.chaos import starting
from example_project.race import Race, racing
from example_project.shop.models import Product
from tests.browser.conftest import PATIENCE
from tests.browser.places import addresses, large_counters

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LogIn = Callable[[User], None]
pytestmark = pytest.mark.django_db(transaction=True)
# Parts of the pages of the admin that are Django's alone.
OF_DJANGO = ["#header", ".breadcrumbs", "#nav-sidebar", "#searchbar"]
# The rest is the same in the dark.
OF_COLOURS = ["color-contrast", "link-in-text-block"]
_FOUND = """
async ([others, rules]) => {
    // A colour that is on its way to another one is none of ours.
    document.getAnimations().forEach(animation => animation.finish());
    const only = rules && { runOnly: { type: "rule", values: rules } };
    const found = await axe.run({ exclude: others }, { resultTypes: ["violations"], ...only });
    return found.violations.flatMap(
        rule => rule.nodes.map(node => `${rule.id}: ${node.target} ${node.failureSummary}`)
    );
}
"""
Look = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def axe() -> str:
    """The script."""
    reason = "there is no axe: pip install axe-playwright-python (dependency group browser)"
    package = pytest.importorskip("axe_playwright_python", reason=reason)
    return resources.files(package).joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """An empty page, in which axe may try out styles. Other tests see that the policy holds."""
    context = browser.new_context(base_url=site, bypass_csp=True, locale="en-US")
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


@pytest.fixture
def look(page: Page, axe: str) -> Look:
    """Finds what is wrong with the page that is open: scheme, rule, place and reason."""

    def found(name: str) -> list[str]:
        page.evaluate(axe)
        page.emulate_media(color_scheme="light")
        light = page.evaluate(_FOUND, [OF_DJANGO, None])
        page.emulate_media(color_scheme="dark")
        dark = page.evaluate(_FOUND, [OF_DJANGO, OF_COLOURS])
        told = {"light": light, "dark": dark}
        return [f"{name}, {scheme}: {one}" for scheme, each in told.items() for one in each]

    return found


class TestAdmin:
    @pytest.fixture(autouse=True)
    def counters(self, transactional_db: None) -> Iterator[None]:
        with large_counters():
            yield

    def test_its_pages(self, page: Page, log_in: LogIn, look: Look) -> None:
        log_in(User.objects.create_superuser("boss"))
        found = []
        for name, address in addresses().items():
            page.goto(address)
            found += look(name)
        page.goto(addresses()["form"])
        page.get_by_label("Number").fill("20")
        page.get_by_label("Reason").fill("Counted by hand")
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("table", name="What would be done").wait_for()
        assert found + look("preview") == []


class TestExample:
    @pytest.fixture
    def site(self, example: str) -> str:
        return example

    def test_its_pages(self, page: Page, look: Look) -> None:
        post = Post.objects.create(title="Count last", slug="count-last", body="Others wait.")
        lamp = Product.objects.create(name="Lamp", slug="lamp", price=19, stock=5)
        places = {name: reverse(name) for name in ("home", "live", "shop", "blog")}
        places |= {"post": post.get_absolute_url(), "product": reverse("product", args=[lamp.pk])}
        found = []
        with racing(Race()), starting():
            for name, address in places.items():
                page.goto(address)
                found += look(name)
        assert found == []
