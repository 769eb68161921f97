"""Fans of a post: each of them likes it once, however often that is sent, and some not for long."""

from __future__ import annotations

import random
import secrets
import threading
from dataclasses import dataclass

from example_project.beacons import like, like_again
from example_project.browser import NO_ANSWER, Browser
from example_project.tally import Tally, likes_of

# How many send it again, as if there had been no answer; and how many take their like back.
AGAIN, TAKE_BACK = 0.2, 0.25
# The form leads back to the page.
_SEEN_AGAIN = 302


@dataclass(frozen=True)
class Fans:
    """People who come one after the other.

    What they like is noted as they know it themselves, whatever the site says.

    Attributes:
        by_form: they press the button; all others like the post over the API.
    """

    browser: Browser
    post: int
    tally: Tally
    stop: threading.Event
    by_form: bool

    def one_more(self) -> bool:
        """Let another one come; True if he was answered."""
        who = secrets.token_hex(16)
        self.browser.becomes(who)
        if self.by_form:
            likes = self._press("yes", 1)
        else:
            likes = like(self.browser, self.post, who, self.tally, self.stop)
        if likes and random.random() < AGAIN:
            # By both ways, whichever was the first: he is the same person.
            self.tally.add("liked_again")
            likes = self._press("yes", 0)
            like_again(self.browser, self.post, who, self.tally)
        return likes and (random.random() >= TAKE_BACK or self._take_back())

    def _take_back(self) -> bool:
        self.tally.add("taken_back")
        return self._press("no", -1) and (random.random() >= AGAIN or self._press("no", 0))

    def _press(self, button: str, by: int) -> bool:
        """Press the button, which has to change the likes by so much."""
        path = f"/blog/{self.post}/like"
        answer = self.browser.send(path, {"like": button})
        if answer.status == NO_ANSWER:
            return False
        self.tally.add(likes_of(self.post), by)
        if (answer.status, answer.likes) != (_SEEN_AGAIN, str(by)):
            told = f"HTTP {answer.status}, changed by {answer.likes}"
            self.tally.fail(f"POST {path} {button}: {told} instead of {by}")
        return True
