"""A browser, a server with a strict policy for content, and a page that may not complain."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from drf_spectacular.settings import patched_settings
from pytest_django.live_server_helper import LiveServer

from django_counters.testing import override_counters
from example_project import settings as of_the_example
from example_project.bootstrap.binaries import find_chromium
from example_project.urls import count_for
from tests.browser.watching import Complaints

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# How the page of the API is served is no part of what it says.
DESCRIBED = {name: of_the_example.SPECTACULAR_SETTINGS[name] for name in ("TITLE", "VERSION")}
PASSWORD = "correct horse battery staple"
# Milliseconds: the machine of a test may be busy.
PATIENCE = 20_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium. Playwright runs an event loop in this thread, so it is here for one file only."""
    if connection.vendor != "postgresql":
        pytest.skip(
            f"needs PostgreSQL (the server has threads); this run is on {connection.vendor}"
        )
    reason = "there is no playwright: pip install playwright (dependency group browser)"
    api = pytest.importorskip("playwright.sync_api", reason=reason)
    path = find_chromium()
    if path is None:
        pytest.skip("there is no Chromium: apt install chromium, or set COUNTERS_CHROMIUM")
    # As root it has no sandbox, and in a container little shared memory.
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with pytest.MonkeyPatch.context() as patch, api.sync_playwright() as playwright:
        # Django refuses to be asked by a thread that has a loop; nothing else runs in this one.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def site(transactional_db: None) -> Iterator[str]:
    """Where the site is, with its static files; every page comes with the policy."""
    middleware = ["tests.browser.policy.with_policy", *settings.MIDDLEWARE]
    with override_settings(MIDDLEWARE=middleware):
        server = LiveServer("127.0.0.1")
        yield server.url
        server.stop()


@pytest.fixture
def example(transactional_db: None, cached: str) -> Iterator[str]:
    """Where the example is, with its policy; its pages may count."""
    with (
        override_counters(**of_the_example.COUNTERS),
        override_settings(
            INSTALLED_APPS=of_the_example.INSTALLED_APPS,
            MIDDLEWARE=of_the_example.MIDDLEWARE,
            SECURE_CSP=of_the_example.SECURE_CSP,
            STATICFILES_DIRS=of_the_example.STATICFILES_DIRS,
        ),
        patched_settings(DESCRIBED),
    ):
        server = LiveServer("127.0.0.1")
        count_for(server.url)
        yield server.url
        server.stop()


@pytest.fixture
def complaints(browser: Browser, site: str) -> Iterator[Complaints]:
    """What went wrong in the page so far; at the end there may be nothing."""
    context = browser.new_context(
        base_url=site,
        viewport={"width": 1280, "height": 800},
        locale="en-US",
        timezone_id="UTC",
        color_scheme="light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE)
    found = Complaints(context.new_page())
    yield found
    context.close()
    assert found.all == []


@pytest.fixture
def page(complaints: Complaints) -> Page:
    """An empty page. The test fails if a script or the policy complained, or a request failed."""
    return complaints.page


@pytest.fixture
def person(transactional_db: None) -> User:
    """Somebody who may do everything, with the password `PASSWORD`."""
    return User.objects.create_superuser("anna", password=PASSWORD)


@pytest.fixture
def log_in(page: Page, site: str) -> Callable[[User], None]:
    """Lets somebody be logged in, without the form."""

    def enter(user: User) -> None:
        client = Client()
        client.force_login(user)
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        page.context.clear_cookies()
        page.context.add_cookies(
            [{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": site}]
        )

    return enter
