"""The blog and the page of the API in a browser, as the example serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from django_counters.contrib.likes.liking import has
from django_counters.models import Counter
from example_project.blog.models import Post
from tests.browser.watching import MOST_STOPS, Complaints, picture

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route

LogIn = Callable[[User], None]
# The server is another thread, with connections of its own.
pytestmark = pytest.mark.django_db(transaction=True)
HIDE = """
window.isSeen = false;
Object.defineProperty(document, "visibilityState", { get: () => isSeen ? "visible" : "hidden" });
"""
SHOW = "isSeen = true; document.dispatchEvent(new Event('visibilitychange'))"


@pytest.fixture
def site(example: str) -> str:
    return example


@pytest.fixture
def post(transactional_db: None) -> Post:
    return Post.objects.create(title="Count last", slug="count-last", body="Others wait.")


@pytest.fixture
def beacons(page: Page) -> list[str]:
    """The fields that the page has counted, in turn."""
    sent: list[str] = []

    def note(url: str) -> None:
        if url.endswith("/view"):
            sent.append("views")
        elif url.endswith("/like"):
            sent.append("likes")

    page.on("request", lambda request: note(request.url))
    return sent


def counts(post: Post) -> tuple[int, int]:
    found = Post.objects.with_counts("views", "likes").get(pk=post.pk)
    return int(found.views), int(found.likes)


def button(page: Page, name: str = "Like") -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def said(page: Page, text: str) -> None:
    """Wait until it is said, also to who cannot see it."""
    page.get_by_role("status").filter(has_text=text).wait_for()


def test_a_page_that_is_not_seen_counts_when_it_is(
    page: Page, post: Post, beacons: list[str]
) -> None:
    page.add_init_script(HIDE)
    page.goto(post.get_absolute_url())
    page.wait_for_load_state("networkidle")
    assert (beacons, counts(post)) == ([], (0, 0))
    page.evaluate(SHOW)
    page.get_by_text("1 view", exact=True).wait_for()
    page.evaluate(SHOW)
    page.wait_for_load_state("networkidle")
    assert beacons == ["views"]
    assert counts(post) == (1, 0)


@pytest.mark.parametrize("logged_in", [False, True])
def test_like_with_the_keyboard_and_without_loading_the_page_again(
    page: Page, post: Post, beacons: list[str], person: User, log_in: LogIn, logged_in: bool
) -> None:
    if logged_in:
        log_in(person)
    page.goto(post.get_absolute_url())
    page.evaluate("window.isTheSame = true")
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if button(page).evaluate("button => button.matches(':focus-visible')"):
            break
    page.keyboard.press("Enter")
    said(page, "You like this: 1 like.")
    page.get_by_text("1 like", exact=True).wait_for()
    assert counts(post) == (1, 1)
    assert button(page, "Take back").evaluate("button => button === document.activeElement")
    page.keyboard.press("Space")
    said(page, "You have taken your like back.")
    page.get_by_text("0 likes", exact=True).wait_for()
    assert page.evaluate("isTheSame")
    page.keyboard.press("Enter")
    said(page, "You like this: 1 like.")
    page.reload()
    button(page, "Take back").wait_for()
    page.wait_for_load_state("networkidle")
    assert beacons == ["views", "likes", "likes", "likes", "views"]
    assert counts(post) == (2, 1)
    assert has(post.likes, person) == logged_in


def test_a_like_whose_answer_is_lost_counts_once(
    page: Page, complaints: Complaints, post: Post
) -> None:
    page.goto(post.get_absolute_url())

    def lose(route: Route) -> None:
        assert route.fetch().status == 200
        route.abort()

    page.route("**/blog/*/like", lose)
    button(page).click()
    said(page, "The server did not answer as it should. Press again: it counts once.")
    assert counts(post)[1] == 1
    page.unroute("**/blog/*/like")
    button(page).click()
    said(page, "You like this: 1 like.")
    assert counts(post)[1] == 1
    told = [complaints.all.pop(), complaints.all.pop()]
    assert all("ERR_FAILED" in each for each in told)


def test_try_the_api(page: Page, post: Post, person: User, log_in: LogIn) -> None:
    Counter.objects.increment("orders:shop", 3)
    log_in(person)
    page.goto(reverse("api-docs"))
    page.get_by_role("heading", name="A shop and a blog that count exactly").wait_for()
    page.locator("#operations-counters-counters_exact").wait_for()
    picture(page, "api")
    call(page, "counters_read", "orders:shop")
    page.get_by_text('"value": 3').first.wait_for()
    call(page, "counters_increment", f"blog.Post.likes:{post.pk}", '{"by": 1}')
    page.get_by_text('"applied": 1').first.wait_for()
    assert counts(post) == (0, 1)


def call(page: Page, operation: str, key: str, body: str = "") -> None:
    """Open an operation, fill in the key and the body, and send it."""
    block = page.locator(f"#operations-counters-{operation}")
    block.locator(".opblock-summary-control").click()
    block.get_by_role("button", name="Try it out").click()
    block.get_by_placeholder("key", exact=True).fill(key)
    if body:
        block.locator("textarea.body-param__text").fill(body)
    block.get_by_role("button", name="Execute").click()
