"""The first page and the live page of the example: what moves, and how they look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.test import Client
from django.urls import reverse

from example_project import rush
from example_project.blog.models import Post
from example_project.bootstrap.children import until
from example_project.chaos import NO_RUN, STARTING, accidents, starting
from example_project.crew import Crew
from example_project.race import Race, racing
from example_project.tally import Tally
from tests.browser.conftest import PATIENCE
from tests.browser.watching import fits

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def site(example: str) -> str:
    return example


@pytest.fixture
def post(example: str) -> Iterator[Post]:
    """Something to read; from now on its views are compared."""
    made = Post.objects.create(title="Count last", slug="count-last", body="Others wait.")
    with racing(Race()):
        yield made


@pytest.mark.parametrize("name", ["home", "live"])
def test_the_numbers_move_side_by_side(page: Page, post: Post, name: str) -> None:
    page.goto(reverse(name))
    page.get_by_text("naive: 0 lost · ours: 0 lost").wait_for()
    Client().post(reverse("view", args=[post.pk]))
    # As if another request had written what it had read before.
    Post.objects.filter(pk=post.pk).update(naive_views=0)
    page.get_by_text("naive: 1 lost · ours: 0 lost").wait_for()


@pytest.mark.parametrize("name", ["home", "live"])
def test_nothing_is_cut_off(page: Page, post: Post, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(reverse(name))
    page.get_by_text("naive: 0 lost").wait_for()
    assert fits(page)


def test_a_button_says_why_it_cannot_kill_until_it_can(
    page: Page, post: Post, tmp_path: Path
) -> None:
    worker = page.get_by_role("button", name="Kill the worker")
    with starting():
        page.goto(reverse("home"))
        assert page.get_by_text(STARTING).count() == 2
        assert worker.is_disabled()
        with accidents(Crew(tmp_path, Tally()), by_itself=False):
            page.locator("button:enabled", has_text="Kill the worker").wait_for()
            assert page.get_by_text(STARTING).count() == 0
    page.get_by_text(NO_RUN).first.wait_for()
    assert worker.is_disabled()


def test_fifty_buyers_come_at_the_press_of_a_button(page: Page, post: Post) -> None:
    page.goto(reverse("live"))
    page.evaluate("window.isTheSame = true")
    page.get_by_role("button", name="Open it to 50 buyers").click()
    page.get_by_text("50 buyers come for 20 items.").wait_for()
    page.get_by_role("table", name="What the buyers were answered").wait_for()
    assert page.evaluate("isTheSame")
    found = rush.last()
    assert found
    assert until(lambda: found.is_over, PATIENCE / 1000)
    rush._last.clear()
