"""What is counted of whoever is not logged in: views by the page, and likes over the API."""

from __future__ import annotations

import json
import random
import threading
import time
from datetime import UTC, datetime, timedelta

from example_project.browser import NO_ANSWER, Answer, Browser
from example_project.countries import LATEST, Cell
from example_project.tally import AWAY, NOBODY_KNOWS, Tally, likes_of, unknown

# How many views are told later, and how long one may be on its way.
READ_BEFORE, A_WHILE = 0.25, timedelta(minutes=10)
# Seconds, and how often: after a Redis that was killed all is up again long before.
WAITS, TRIES = 0.25, 120


def see(browser: Browser, post: int, tally: Tally) -> int:
    """Count one view. It is sent once: a view that was turned away is no view."""
    seen = datetime.now(UTC)
    if random.random() < READ_BEFORE:
        # Read without a connection, and told now.
        seen -= random.random() * (LATEST - A_WHILE)
    answer = browser.send(f"/blog/{post}/view", {"seen": seen.isoformat()})
    if answer.status == 200:
        cell = Cell(post, browser.country, seen.date().isoformat())
        tally.add(cell.name(known=answer.known))
    elif answer.status != NO_ANSWER:
        tally.fail(f"a view of post {post}: HTTP {answer.status}")
    return answer.status


def like(browser: Browser, post: int, who: str, tally: Tally, stop: threading.Event) -> bool:
    """Let somebody like a post: it is sent until it is known what has become of it.

    Whoever has liked it already is not counted again, so that does no harm.
    """
    counter, is_known = likes_of(post), True
    for _ in range(TRIES):
        answer = browser.count(counter, who)
        is_known = is_known and answer.status != NOBODY_KNOWS
        if answer.status == 200:
            _note_like(counter, answer, tally, is_first=is_known)
            return True
        if not _is_worth_while(counter, answer.status, tally) or (is_known and stop.is_set()):
            break
        time.sleep(WAITS)
    if not is_known:
        tally.add(unknown(counter))
    return False


def _note_like(counter: str, answer: Answer, tally: Tally, *, is_first: bool) -> None:
    """Note a like whose answer has come, also where it is the answer to an earlier request."""
    if _is_replayed(answer) and is_first:
        tally.fail(f"{counter}: a like was answered as if it had been sent before")
    tally.add(counter)


def like_again(browser: Browser, post: int, who: str, tally: Tally) -> None:
    """Send the like of somebody who likes the post: nothing is counted."""
    again, counter = browser.count(likes_of(post), who), likes_of(post)
    tally.add("liked_again")
    if again.status == 200 and not _is_replayed(again):
        tally.fail(f"{counter}: a like that was sent again was counted again")
    elif again.status != 200:
        _is_worth_while(counter, again.status, tally)


def _is_replayed(answer: Answer) -> bool:
    return bool(json.loads(answer.body)["replayed"])


def _is_worth_while(counter: str, status: int, tally: Tally) -> bool:
    """Whether it may be sent again; notes what was answered."""
    if status == NOBODY_KNOWS:
        return True
    _note_refusal(counter, status, tally)
    return status == AWAY


def _note_refusal(counter: str, status: int, tally: Tally) -> None:
    if status == AWAY:
        tally.add("turned_away")
    elif status != NO_ANSWER:
        tally.fail(f"a beacon for {counter}: HTTP {status}")
