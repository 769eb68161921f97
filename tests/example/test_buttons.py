"""The buttons of two pages: something is killed, and a hot item is sold to many at once."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest
from django.core.wsgi import get_wsgi_application
from django.db import connections
from django.db.models.signals import post_init
from django.test import Client
from django.urls import reverse

from example_project import chaos, rush
from example_project.bootstrap import valkey
from example_project.bootstrap.children import until
from example_project.crew import WORKER, Crew
from example_project.rush import BUYERS, NAIVE, OURS, UNITS, Rush, Sold
from example_project.server import serving
from example_project.shop.models import HotItem
from example_project.tally import Tally
from tests.example.running import PATIENCE, started, url_of_the_test

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nobody_has_bought() -> Iterator[None]:
    yield
    rush._last.clear()


@pytest.mark.many_writers
def test_fifty_buyers_get_what_there_is_and_nothing_more(transactional_db: None) -> None:
    with serving(get_wsgi_application(), 0) as port:
        host = {"host": f"localhost:{port}"}
        assert Client().post(reverse("rush-open"), headers=host).status_code == 302
        found = rush.last()
        assert found
        assert until(lambda: found.is_over, PATIENCE)
    assert found.outcome(OURS) == Sold(sold=UNITS, refused=BUYERS - UNITS, failed=0)
    assert HotItem.objects.get().stock == 0
    naive = found.outcome(NAIVE)
    # How many get the same one, is a matter of luck; but nobody is refused before all are sold.
    assert UNITS <= naive.sold <= BUYERS
    assert (naive.sold + naive.refused, naive.failed) == (BUYERS, 0)
    page = Client().get(reverse("home")).content.decode()
    assert f"ours: {UNITS} sold of {UNITS}. Oversold: {naive.oversold} and 0." in page


@pytest.mark.many_writers
@pytest.mark.parametrize(
    ("buy", "sold"), [(rush.buy_naively, [True, True]), (rush.buy_exactly, [False, True])]
)
def test_two_look_at_the_last_one_at_once(buy: Callable[[int], bool], sold: list[bool]) -> None:
    item = HotItem.objects.create(stock=1, naive_stock=1)
    both = threading.Barrier(2)

    def look(**_: Any) -> None:
        both.wait(PATIENCE)

    def come(_: int) -> bool:
        try:
            return buy(item.pk)
        finally:
            connections.close_all()

    post_init.connect(look, sender=HotItem)
    try:
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(come, range(2))) == sold
    finally:
        post_init.disconnect(look, sender=HotItem)


def test_while_others_buy_no_other_item_is_opened(client: Client) -> None:
    rush._last.append(Rush(0))
    answer = client.post(reverse("rush-open"))
    assert (answer.status_code, HotItem.objects.count()) == (409, 0)


@pytest.mark.parametrize(("way", "of"), [(NAIVE, 3), (OURS, 0)])
def test_what_was_sold_too_much_is_said(way: str, of: int) -> None:
    found = Rush(0)
    found.answers.add(f"{way} sold", UNITS + of)
    found.answers.add(f"{way} refused", 2)
    assert found.outcome(way).oversold == of
    assert found.outcome(way).waiting == BUYERS - UNITS - of - 2
    assert not Rush(0).is_over


def test_where_nothing_was_started_nothing_is_killed(client: Client) -> None:
    answer = client.post(reverse("kill"), {"do": chaos.REDIS})
    assert (answer.status_code, answer.content.decode()) == (409, chaos.NO_RUN)
    assert chaos.NO_RUN in client.get(reverse("home")).content.decode()
    assert client.post(reverse("kill"), {"do": "PostgreSQL"}).status_code == 400


def test_what_is_starting_can_be_killed_as_soon_as_it_runs(client: Client, tmp_path: Path) -> None:
    press = {"do": WORKER, "came": "live"}
    with chaos.starting():
        assert client.post(reverse("kill"), press).content.decode() == chaos.STARTING
        with chaos.accidents(Crew(tmp_path, Tally()), by_itself=False):
            answer = client.post(reverse("kill"), press)
    assert (answer.status_code, answer["Location"]) == (302, reverse("live"))


def test_a_redis_of_somebody_else_is_not_killed(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever runs pytest without servers of his own has one of this process.
    monkeypatch.setattr(valkey, "_ours", [])
    with chaos.accidents(Crew(tmp_path, Tally()), by_itself=False) as work:
        answer = client.post(reverse("kill"), {"do": chaos.REDIS})
        assert (answer.status_code, answer.content.decode()) == (409, chaos.NOT_OURS)
        assert chaos.NOT_OURS in client.get(reverse("home")).content.decode()
        work.step()
    assert not work.kills


def test_without_javascript_a_press_goes_back_to_a_page_of_ours(
    client: Client, tmp_path: Path
) -> None:
    with chaos.accidents(Crew(tmp_path, Tally()), by_itself=False):
        for came in ("home", "//elsewhere.example/", ""):
            answer = client.post(reverse("kill"), {"do": WORKER, "came": came})
            assert answer["Location"] == reverse("home")


def test_who_has_no_token_presses_nothing() -> None:
    stranger = Client(enforce_csrf_checks=True)
    for name in ("kill", "rush-open"):
        assert stranger.post(reverse(name), {"do": chaos.REDIS}).status_code == 403


class Visitor:
    """Reads the first page, and presses its buttons without JavaScript."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def page(self) -> str:
        text: str = self._opener.open(self._base).read().decode()
        return text

    def press(self, path: str, **form: str) -> str:
        """The page that follows, or why it was refused."""
        token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', self.page())
        assert token
        sent = urlencode({**form, "csrfmiddlewaretoken": token[1]}).encode()
        try:
            text: str = self._opener.open(Request(self._base + path, sent)).read().decode()
        except HTTPError as refusal:
            text = refusal.read().decode()
        return text


def address(process: subprocess.Popen[str]) -> str:
    """Where it serves, as it says itself."""
    assert process.stderr
    for line in process.stderr:
        if found := re.match(r"(http://[\d.:]+)/", line):
            return found[1]
    raise AssertionError("it says no address")


@pytest.mark.many_writers
def test_what_the_example_has_started_is_killed_and_nothing_is_lost(
    transactional_db: None,
) -> None:
    with started(url_of_the_test(), "--json", own_redis=True) as process:
        visitor = Visitor(address(process))
        # It says its address before it has started what may be killed.
        assert until(lambda: chaos.STARTING not in visitor.page(), PATIENCE)
        for name in (chaos.REDIS, "worker"):
            visitor.press("/kill", do=name)
            assert until(lambda one=name: f"{one} was killed" in visitor.page(), PATIENCE)  # type: ignore[misc]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    found = json.loads(out)
    assert found["ok"]
    assert set(found["kills"]) == {"Redis", "worker"}
    assert found["race"]["ours"]["lost"] == 0
