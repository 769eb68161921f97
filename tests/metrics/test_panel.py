"""The panel of Django Debug Toolbar lists the changes of a request, and of no other one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, override_settings
from django.urls import include, path

from django_counters.models import Counter
from django_counters.signals import batch_applied
from django_counters.testing import override_counters
from django_counters.types import Unknown
from tests.docs.pages import DOCS, blocks
from tests.testapp.models import Account, Article, Post, Song

pytestmark = pytest.mark.django_db(transaction=True)
PANEL = "django_counters.metrics.panel.CountersPanel"
(RECIPE,) = blocks(DOCS / "how-to" / "debug-toolbar.md", "python")
NAMESPACES: dict[str, Any] = {
    "views": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}},
    "orders": {"STRATEGY": "ledger"},
    "likes": {"STRATEGY": "sharded"},
}
Row = tuple[str, str, str, str]

works: dict[str, Callable[[], Any]] = {}
heard_by: list[int] = []


def view(request: HttpRequest, name: str) -> HttpResponse:
    works[name]()
    heard_by.append(len(batch_applied.receivers))
    return HttpResponse("<body></body>")


async def aview(request: HttpRequest, name: str) -> HttpResponse:
    await works[name]()
    return HttpResponse("<body></body>")


urlpatterns: list[Any] = [path("sync/<name>", view), path("async/<name>", aview)]


@pytest.fixture(autouse=True)
def _site(cached: str, settings: Any) -> Iterator[None]:
    """A site with the toolbar, and the panel as its page says.

    The toolbar keeps requests in memory, and needs no tables.
    """
    given: dict[str, Any] = {}
    exec(compile(RECIPE.text, RECIPE.page, "exec"), given)
    with (
        override_settings(
            DEBUG=True,
            INTERNAL_IPS=["127.0.0.1"],
            INSTALLED_APPS=[*settings.INSTALLED_APPS, "debug_toolbar"],
            MIDDLEWARE=["debug_toolbar.middleware.DebugToolbarMiddleware"],
            ROOT_URLCONF=__name__,
            DEBUG_TOOLBAR_PANELS=given["DEBUG_TOOLBAR_PANELS"],
        ),
        override_counters(**NAMESPACES),
    ):
        # Its models can be imported while it is installed, and not before.
        urlpatterns[2:] = [path("debug/", include("debug_toolbar.urls"))]
        yield
    works.clear()
    heard_by.clear()
    for one in connections.all():
        # The toolbar puts its own cursor onto a connection, and leaves it there.
        if "_djdt_cursor" in vars(one):
            for name in ("cursor", "chunked_cursor", "_djdt_cursor", "_djdt_chunked_cursor"):
                delattr(one, name)


@pytest.fixture(autouse=True)
def _counting() -> None:
    """No metrics: they listen to the same signal."""


@pytest.fixture(params=[Client, AsyncClient], ids=["WSGI", "ASGI"])
def get(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """Asks for a page, as a server of one of the two kinds does."""
    client = request.param()

    def answer(url: str) -> Any:
        asked = client.get(url)
        found = asked if request.param is Client else async_to_sync(_awaited)(asked)
        assert not batch_applied.receivers, "nothing listens when a request has ended"
        return found

    return answer


async def _awaited(asked: Coroutine[Any, Any, Any]) -> Any:
    return await asked


def content(answer: HttpResponse, panel: str = "CountersPanel") -> str:
    """The panel as the browser fetches it, after the page."""
    marked = answer.content.decode().partition('data-request-id="')[2]
    query = {"request_id": marked.partition('"')[0], "panel_id": panel}
    found: str = Client().get("/debug/render_panel/", query).json()["content"]
    return found


def rows(answer: HttpResponse) -> list[Row]:
    """The counter, the change, the value and the strategy of each line."""
    lines = content(answer).split("<tr><td>")[1:]
    cells = [line.partition("</td></tr>")[0].split("</td><td>") for line in lines]
    assert {one[4] for one in cells} <= {"default"}
    return [(one[0], one[1], one[2], one[3]) for one in cells]


def in_a_transaction() -> None:
    with transaction.atomic():
        Counter.objects.increment("views:a", 3)


WAYS: dict[str, tuple[Callable[[], Any], list[Row]]] = {
    "exact": (
        lambda: [Counter.objects.increment("a", 2), Counter.objects.decrement("a")],
        [("a", "+2", "2", "exact"), ("a", "-1", "1", "exact")],
    ),
    "many": (
        lambda: Counter.objects.increment_many({"a": 3, "likes:a": 4}),
        [("likes:a", "+4", "4", "sharded"), ("a", "+3", "3", "exact")],
    ),
    "cached": (
        lambda: Counter.objects.increment("views:a", 3),
        [("views:a", "+3", "3", "cached")],
    ),
    "cached, in a transaction": (
        in_a_transaction,
        [("views:a", "+3", f"not known: {Unknown.COMMIT}", "cached")],
    ),
    "field": (
        lambda: Post.objects.create(pk=7).views.increment(3),
        [("testapp.Post.views:7", "+3", "3", "exact")],
    ),
    "cached field": (
        lambda: Article.objects.create(pk=7).reads.increment(3),
        [("testapp.Article.reads:7", "+3", "3", "cached")],
    ),
    "slotted field": (
        lambda: Song.objects.create(pk=7).plays.increment(3),
        [("testapp.Song.plays:7", "+3", "3", "slotted")],
    ),
    "amounts": (
        lambda: Account.objects.create(pk=7).balance.increment(Decimal("12.50")),
        [("testapp.Account.balance:7", "+12.50", "12.50", "exact")],
    ),
    "nothing": (lambda: Counter.objects.value("a"), []),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_change_has_a_line(way: str, get: Callable[[str], Any]) -> None:
    works["a"], expected = WAYS[way]
    assert rows(get("/sync/a")) == expected


def test_an_entry_of_the_ledger_has_no_value(get: Callable[[str], Any]) -> None:
    works["a"] = lambda: Counter.objects.increment("orders:a", 3)
    ((counter, by, value, strategy),) = rows(get("/sync/a"))
    assert (counter, by, strategy) == ("orders:a", "+3", "ledger")
    assert value.startswith("not known: an entry is appended")


def test_async_views(get: Callable[[str], Any]) -> None:
    async def work() -> None:
        await Counter.objects.aincrement("a", 2)
        await asyncio.create_task(Counter.objects.aincrement("views:a", 3))
        async with Counter.objects.acollect():
            await Counter.objects.aincrement("b", 4)

    works["a"] = work
    assert rows(get("/async/a")) == [
        ("a", "+2", "2", "exact"),
        ("views:a", "+3", "3", "cached"),
        ("b", "+4", "4", "exact"),
    ]


def test_the_panel_of_sql_shows_the_statements(get: Callable[[str], Any]) -> None:
    works["a"] = lambda: [Counter.objects.increment("a"), Counter.objects.value("a")]
    assert content(get("/sync/a"), "SQLPanel").count("django_counters_counter") >= 2


def test_a_name_is_escaped(get: Callable[[str], Any]) -> None:
    works["a"] = lambda: Counter.objects.increment("<b>")
    assert [row[0] for row in rows(get("/sync/a"))] == ["&lt;b&gt;"]


def test_many_changes_are_numbered_and_not_all_listed(get: Callable[[str], Any]) -> None:
    works["a"] = lambda: Counter.objects.increment_many({f"{i}": 1 for i in range(150)})
    works["b"] = lambda: [works["a"](), works["a"]()]
    answer = get("/sync/b")
    assert len(rows(answer)) == 200
    assert "100 more changes are not listed" in content(answer)
    assert "300 changes" in answer.content.decode()


@pytest.mark.many_writers
def test_requests_at_the_same_time_list_their_own_in_threads() -> None:
    both = threading.Barrier(2, timeout=60)

    def work(key: str) -> None:
        both.wait()
        Counter.objects.increment(key)
        both.wait()

    def ask(key: str) -> Any:
        try:
            return Client().get(f"/sync/{key}")
        finally:
            connections.close_all()

    works.update(a=lambda: work("a"), b=lambda: work("b"))
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, "ab"))
    assert heard_by[0] == 2, "both panels listened at once"
    assert [[row[0] for row in rows(answer)] for answer in answers] == [["a"], ["b"]]


@pytest.mark.rare
def test_requests_at_the_same_time_list_their_own_on_one_event_loop() -> None:
    async def ask() -> list[Any]:
        both = asyncio.Barrier(2)

        async def work(key: str) -> None:
            async with both:
                await Counter.objects.aincrement(f"views:{key}")
            async with both:
                pass

        works.update(a=lambda: work("a"), b=lambda: work("b"))
        client: Any = AsyncClient()
        return await asyncio.gather(*(client.get(f"/async/{key}") for key in "ab"))

    answers = async_to_sync(ask)()
    listed = [[row[0] for row in rows(answer)] for answer in answers]
    assert listed == [["views:a"], ["views:b"]]


@pytest.mark.parametrize("off", ["hidden", "disabled", "unticked"])
def test_nothing_listens_without_the_panel(off: str) -> None:
    works["a"] = lambda: Counter.objects.increment("a")
    client = Client()
    if off == "unticked":
        client.cookies["djdtCountersPanel"] = "off"
    disabled = {"DISABLE_PANELS": {PANEL} if off == "disabled" else set()}
    with override_settings(DEBUG_TOOLBAR_CONFIG=disabled):
        client.get("/sync/a", REMOTE_ADDR="192.0.2.1" if off == "hidden" else "127.0.0.1")
    assert heard_by == [0]


def test_an_error_of_the_view_ends_the_listening() -> None:
    works["a"] = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        Client().get("/sync/a")
    assert not batch_applied.receivers
