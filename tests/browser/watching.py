"""What a browser does that a person would do, and what it complains of meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page, Request, Response

PICTURES = Path(__file__).parents[2] / "docs" / "images"
# Not even a page of the admin with all its menus has as many places to stop at.
MOST_STOPS = 100
_REPORT = """
document.addEventListener("securitypolicyviolation", event => console.error(
    `policy: ${event.violatedDirective} forbids ${event.blockedURI} in ${event.sourceFile}`
));
"""


_FOCUSED = "(e => (e.innerText || e.value || '').trim())(document.activeElement)"


class Complaints:
    """All that goes wrong in a page: errors, failed requests, and what the policy forbids."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.all: list[str] = []
        page.add_init_script(_REPORT)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.all.append(f"script: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)

    def _console(self, message: ConsoleMessage) -> None:
        # Chromium asks every site for one, and the admin has none.
        icon = message.location["url"].endswith("/favicon.ico")
        if message.type in ("error", "warning") and not icon:
            self.all.append(f"console: {message.text}")

    def _failed(self, request: Request) -> None:
        self.all.append(f"request: {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.all.append(f"answer: {response.url}: {response.status}")


def go_with_keys(page: Page, name: str) -> None:
    """Press Tab until what has this text has the focus, see that it shows it, and press Enter."""
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        focused: Any = page.evaluate(_FOCUSED)
        # Some of the admin's style sheets write it in capitals.
        if focused.casefold() == name.casefold():
            break
    else:
        raise AssertionError(f"nothing called {name!r} can be reached with the keyboard")
    assert page.evaluate("document.activeElement.matches(':focus-visible')")
    with page.expect_navigation():
        page.keyboard.press("Enter")


def fits(page: Page) -> bool:
    """Whether nothing of the page is wider than the window."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def picture(page: Page, name: str) -> None:
    """Keep a picture for the documentation, where COUNTERS_SCREENSHOTS=1 asks for it."""
    if os.environ.get("COUNTERS_SCREENSHOTS") == "1":
        page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
