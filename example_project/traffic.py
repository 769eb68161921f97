"""The load: people who read posts, fans of two of them, and sixty who want the same lamp.

Others want that lamp as well, and put it into a basket first.

What is seen is counted as the scripts of the pages do it. Readers say where they are.

It is a process of its own, which knows the site by HTTP alone.
"""

from __future__ import annotations

import multiprocessing
import random
import secrets
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection

from django_counters import token_of
from example_project.beacons import see
from example_project.browser import NO_ANSWER, Browser, Site
from example_project.countries import COUNTRIES
from example_project.fans import Fans
from example_project.shoppers import Shoppers
from example_project.tally import Tally

READERS = 8
FANS = 8
# So many of them press the button of the page, all others like over the API.
FANS_WITH_FORMS = 2
FAVOURITES = 2
BUYERS = 60
SHOPPERS = 8
# How many of those who have bought press the button again, as if there had been no answer.
SENT_AGAIN = 0.2
# How long a buyer who was refused waits (seconds).
LOOKS_AGAIN = (0.2, 0.6)
REPORTS_EVERY = 0.2


@dataclass(frozen=True)
class Plan:
    """Whom to ask for what."""

    site: Site
    posts: Sequence[int]
    pages: Sequence[str]
    sale: int


@contextmanager
def load(plan: Plan, sent: Tally) -> Iterator[None]:
    """Send traffic meanwhile; at the end wait until all that was asked is answered.

    Args:
        plan: What to send.
        sent: Is told what was sent and answered: now and then, and completely at the end.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=send, args=(plan, theirs))
    process.start()
    theirs.close()
    listener = threading.Thread(target=_listen, args=(ours, sent))
    listener.start()
    try:
        yield
    finally:
        with suppress(OSError):  # it is gone: the listener has noted that
            ours.send("stop")
        listener.join()
        process.join()
        process.close()
        ours.close()


def _listen(pipe: Connection, sent: Tally) -> None:
    ended = False
    while not ended:
        try:
            sums, failures, ended = pipe.recv()
        except (EOFError, OSError):
            sent.fail("the load broke off: what it sent last is not known")
            return
        sent.replace(sums, failures)


def send(plan: Plan, pipe: Connection) -> None:
    """Be the load until something is said in the pipe, or its other end is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # A whole group of processes may be signalled; the parent is who decides when to stop.
        signal.signal(number, signal.SIG_IGN)
    tally, stop, start = Tally(), threading.Event(), threading.Barrier(BUYERS)
    threads = [
        threading.Thread(target=_guarded, args=(job, tally, start))
        for job in _jobs(plan, tally, stop, start)
    ]
    for thread in threads:
        thread.start()
    with suppress(OSError):
        while not pipe.poll(REPORTS_EVERY):
            pipe.send((tally.sums(), tally.failures(), False))
    stop.set()
    start.abort()
    for thread in threads:
        thread.join()
    with suppress(OSError):
        pipe.send((tally.sums(), tally.failures(), True))


def _jobs(
    plan: Plan, tally: Tally, stop: threading.Event, start: threading.Barrier
) -> Iterator[Callable[[], None]]:
    for number in range(READERS):
        yield partial(read, plan, tally, stop, number)
    for number in range(FANS):
        yield partial(cheer, plan, tally, stop, number)
    for number in range(SHOPPERS):
        yield partial(shop, plan, tally, stop, number)
    for number in range(BUYERS):
        yield partial(buy, plan, tally, stop, start, number)


def _guarded(job: Callable[[], None], tally: Tally, start: threading.Barrier) -> None:
    """Do a job; one that breaks off makes the run fail."""
    try:
        job()
    except threading.BrokenBarrierError:
        pass  # the run was stopped before the sale had begun
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        tally.fail(f"a thread of the load broke off: {error!r}")
        start.abort()


def read(plan: Plan, tally: Tally, stop: threading.Event, number: int) -> None:
    """Read posts, the first ones more often, and look at other pages now and then."""
    dice = random.Random()
    posts = {page_of(post): post for post in plan.posts}
    weights = [1 / (place + 1) for place in range(len(posts))] + [0.1] * len(plan.pages)
    browser = Browser(plan.site, tally, COUNTRIES[number % len(COUNTRIES)])
    try:
        while not stop.is_set():
            (path,) = dice.choices([*posts, *plan.pages], weights)
            status = browser.get(path)
            if status == 200 and path in posts:
                status = see(browser, posts[path], tally)
            if status == NO_ANSWER:
                stop.wait(0.5)  # noted; a server that is gone is not asked all the time
    finally:
        browser.close()


def page_of(post: int) -> str:
    """The page of a post."""
    return f"/blog/{post}/"


def cheer(plan: Plan, tally: Tally, stop: threading.Event, number: int) -> None:
    """Open one of the favourite posts; then one fan after the other likes and downloads it."""
    post = plan.posts[number % FAVOURITES]
    browser = Browser(plan.site, tally)
    fans = Fans(browser, post, tally, stop, number < FANS_WITH_FORMS)
    try:
        browser.get(page_of(post))
        while not stop.is_set():
            liked = fans.one_more()
            downloaded = browser.get(f"{page_of(post)}download")
            if not liked or downloaded == NO_ANSWER:
                stop.wait(0.5)
    finally:
        browser.close()


def shop(plan: Plan, tally: Tally, stop: threading.Event, number: int) -> None:
    """Open the page of the sale; then one shopper after the other has a basket of it."""
    browser = Browser(plan.site, tally)
    shoppers = Shoppers(browser, plan.sale, f"{plan.site.run}-basket-{number}", tally, stop)
    try:
        browser.get(f"/shop/{plan.sale}/")
        while not stop.is_set():
            if not shoppers.one_more():
                stop.wait(random.uniform(*LOOKS_AGAIN))
    finally:
        browser.close()


def buy(
    plan: Plan, tally: Tally, stop: threading.Event, start: threading.Barrier, number: int
) -> None:
    """Open the page of the sale, wait for all others, then buy one to three, again and again."""
    dice = random.Random()
    page = f"/shop/{plan.sale}/"
    browser = Browser(plan.site, tally)
    try:
        browser.get(page)
        start.wait()
        while not stop.is_set():
            quantity = dice.randint(1, 3)
            form = {
                "quantity": quantity,
                "buyer": f"{plan.site.run}-{number}",
                "number": token_of(secrets.token_hex(16), datetime.now(UTC)),
            }
            status = browser.post(f"{page}buy", form)
            if status == 200:
                tally.add(f"sold:{plan.sale}", quantity)
                if dice.random() < SENT_AGAIN:
                    _buy_again(browser, f"{page}buy", form, tally)
                continue
            _note_refusal(tally, f"{page}buy", status)
            stop.wait(dice.uniform(*LOOKS_AGAIN))
    finally:
        browser.close()


def _buy_again(browser: Browser, path: str, form: Mapping[str, object], tally: Tally) -> None:
    """Send an order again: it is answered as the first time, and nothing more is sold."""
    status = browser.post(path, form, again=True)
    tally.add("sent_again")
    if status not in (200, NO_ANSWER):
        tally.fail(f"POST {path}, sent again: HTTP {status}")


def _note_refusal(tally: Tally, path: str, status: int) -> None:
    if status == 409:
        tally.add("refused")
    elif status != NO_ANSWER:
        tally.fail(f"POST {path}: HTTP {status}")
