"""The check at the end of a run, and the whole run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter as Sums
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings

from django_counters.models import Counter, CounterDelta, CounterShard, SlottedCounter
from django_counters.testing import override_counters
from django_counters.upkeep.rollup import rollup
from example_project import seeds, verify
from example_project.blog.downloads import register
from example_project.blog.models import Post
from example_project.browser import Browser, Site
from example_project.flow import Flow
from example_project.report import Report
from example_project.run import main
from example_project.screen import written
from example_project.server import serving
from example_project.settings import COUNTERS
from example_project.settling import settle
from example_project.shop.models import Product
from example_project.shop.orders import place
from example_project.tally import (
    COUNTED_HEADER,
    ORDERS,
    REPLAYED_HEADER,
    UNKNOWN,
    Tally,
    Watched,
    counter_of,
)
from tests.conftest import forget_pending
from tests.settling import roll_up


def report(before: verify.Snapshot, sent: Sums[str], failed: int = 0) -> Report:
    assert settle() == []
    after = verify.snapshot()
    return Report(
        seconds=1.0,
        requests=1,
        refused=0,
        failed=failed,
        failures=["GET /: HTTP 500"] * failed,
        counts=verify.counts(before, after, sent),
        sales=verify.sales(before, after, sent, "load-1"),
        flow=Flow(0, 0, 0),
        drifts=verify.drifts(),
    )


@pytest.fixture
def before(transactional_db: None) -> Iterator[verify.Snapshot]:
    with override_counters(**COUNTERS):
        seeds.sow()
        Counter.objects.increment("visits:shop", 5)
        register(post())
        post().likes.increment(4)
        settle()
        yield verify.snapshot()


def post() -> Post:
    return Post.objects.all()[0]


def sale() -> Product:
    return Product.objects.get(slug=seeds.SALE)


def sent() -> Sums[str]:
    """What was sent: one of each, three lamps, ten more lamps, and a visitor's lamp."""
    post().views.increment()
    post().likes.increment()
    register(post())
    Counter.objects.increment("visits:shop")
    place(sale(), 3, "load-1-7")
    place(sale(), 1, "a visitor")
    sale().stock.increment(10)
    names = (
        f"blog.Post.views:{post().pk}",
        f"blog.Post.likes:{post().pk}",
        f"downloads:post-{post().pk}",
        "visits:shop",
    )
    sums = {f"sold:{sale().pk}": 3, f"restocked:{sale().pk}": 10, ORDERS: 2}
    return Sums({**dict.fromkeys(names, 1), **sums})


def test_a_run_that_agrees(before: verify.Snapshot) -> None:
    found = report(before, sent())
    assert found.ok
    assert "Every counter is exact: counted = expected." in written(found)
    sums = found.as_json()
    for kind in ("views", "likes", "downloads", "visits"):
        assert sums[kind] == {"sent": 1, "counted": 1, "unknown": 0}
    assert sums["orders"] == {"sent": 2, "counted": 2, "unknown": 0}
    lamp = next(one for one in found.sales if one.product == sale().name)
    assert (lamp.before, lamp.restocked, lamp.left, lamp.sold, lamp.ordered) == (500, 10, 506, 4, 4)


@pytest.mark.parametrize(
    "tamper",
    [
        pytest.param(lambda: Post.objects.all()[1].views.increment(1), id="a view too many"),
        pytest.param(lambda: post().views.decrement(1), id="a view too few"),
        pytest.param(lambda: post().likes.increment(1), id="a like too many"),
        pytest.param(lambda: SlottedCounter.objects.all().delete(), id="slots gone"),
        pytest.param(lambda: Post.objects.filter(pk=post().pk).update(likes=1), id="likes set"),
        pytest.param(lambda: register(post()), id="a download too many"),
        pytest.param(lambda: register(Post.objects.all()[1]), id="an unknown download"),
        pytest.param(lambda: CounterShard.objects.all().delete(), id="shards gone"),
        pytest.param(lambda: Counter.objects.increment("downloads:post-0"), id="no such post"),
        pytest.param(lambda: Counter.objects.increment("visits:blog"), id="an unknown visit"),
        pytest.param(lambda: Counter.objects.increment(ORDERS), id="an order too many"),
        pytest.param(lambda: Counter.objects.increment("orders:other"), id="an unknown order"),
        pytest.param(lambda: CounterDelta._base_manager.all().delete(), id="entries gone"),
        pytest.param(lambda: Counter.objects.filter(key="visits:shop").delete(), id="visits gone"),
        pytest.param(lambda: sale().stock.decrement(1), id="stock without an order"),
        pytest.param(lambda: sale().orders.filter(quantity=3).delete(), id="an order gone"),
        pytest.param(lambda: sale().orders.create(quantity=1), id="an order of nothing"),
    ],
)
def test_a_difference_is_noticed(before: verify.Snapshot, tamper: Any) -> None:
    expected = sent()
    tamper()
    found = report(before, expected)
    assert not found.ok
    assert found.wrong == 1
    assert "FAILED" in written(found)


def test_what_redis_has_lost_is_noticed_by_the_app_and_by_the_check(
    before: verify.Snapshot,
) -> None:
    expected, earlier = sent(), verify.last_incident()
    forget_pending("default", settings.CACHES["default"]["KEY_PREFIX"])
    lost = settle()
    assert len(lost) == 16
    assert all(one.startswith("the flush: lost: default [") for one in lost)
    assert len(verify.unexpected(verify.incidents(earlier), chaos=True)) == 16
    found = report(before, expected)
    assert {row.counter for row in found.counts if not row.ok} == {
        f"blog.Post.views:{post().pk}",
        "visits:shop",
    }


def test_an_order_that_nobody_sent_is_noticed_in_the_stock_and_in_the_ledger(
    before: verify.Snapshot,
) -> None:
    expected = sent()
    place(sale(), 1, "load-1-8")
    assert report(before, expected).wrong == 2


def test_entries_that_are_gone_are_noticed_when_they_are_rolled_up(
    transactional_db: None, before: verify.Snapshot
) -> None:
    expected = sent()
    roll_up()
    CounterDelta._base_manager.all().delete()
    found = report(before, expected)
    assert (found.ok, found.drifts) == (False, ["orders:shop: 2 instead of 0"])
    assert "the ledger: orders:shop: 2 instead of 0" in written(found)
    assert found.as_json()["drifts"] == found.drifts


def test_a_rollup_changes_no_value(before: verify.Snapshot) -> None:
    expected = sent()
    assert rollup().rows > 0
    assert report(before, expected).ok
    assert rollup().rows == 0
    assert report(before, expected).ok


def test_a_fresh_start_takes_everything_away(before: verify.Snapshot) -> None:
    rollup()
    sent()
    settle()
    assert "6 posts and 3 counters of downloads:, visits:, orders:" in seeds.clear_site()
    assert verify.snapshot().counts == {}
    assert not SlottedCounter.objects.exists()
    assert not CounterShard.objects.exists()


@pytest.mark.parametrize(
    ("counted", "ok"), [(0, False), (1, True), (2, True), (3, True), (4, False)]
)
def test_what_nobody_knows_may_be_counted_or_not_and_nothing_else(
    before: verify.Snapshot, counted: int, ok: bool
) -> None:
    """One was answered, and two were not."""
    expected = Sums({"visits:shop": 1, "unknown:visits:shop": 2})
    if counted:
        Counter.objects.increment("visits:shop", counted)
    found = report(before, expected)
    assert (found.ok, found.wrong) == (ok, 0 if ok else 1)
    assert found.as_json()["visits"] == {"sent": 1, "counted": counted, "unknown": 2}
    more = {2: " and 1 of the unknown", 3: " and 2 of the unknown"}.get(counted, "")
    assert (f"Every counter is exact: counted = expected{more}." in written(found)) == ok


def test_what_only_nobody_knows_of_is_checked_as_well(before: verify.Snapshot) -> None:
    Counter.objects.increment("visits:new", 2)
    assert not report(before, Sums({"unknown:visits:new": 1})).ok
    assert report(before, Sums({"unknown:visits:new": 2})).ok


def test_what_is_lost_on_its_way_makes_the_run_fail(before: verify.Snapshot) -> None:
    found = replace(report(before, sent()), flow=Flow(written=5, waiting=1, landed=3))
    assert (found.flow.lost, found.wrong, found.ok) == (1, 0, False)


def test_an_incident_is_expected_only_where_redis_was_killed() -> None:
    found = ["history: default", "lost: default [3]"]
    assert verify.unexpected(found, chaos=True) == ["lost: default [3]"]
    assert verify.unexpected(found, chaos=False) == found


def test_a_request_that_failed_makes_the_run_fail(before: verify.Snapshot) -> None:
    found = report(before, sent(), failed=1)
    assert not found.ok
    assert "GET /: HTTP 500" in written(found)


def test_a_second_sowing_fills_up_and_keeps_what_was_counted(before: verify.Snapshot) -> None:
    sent()
    seeds.sow()
    assert sale().stock == 506
    sale().stock.decrement(100)
    seeds.sow()
    assert sale().stock == 500
    assert post().views.read().value == 1


@pytest.mark.parametrize(
    ("request_line", "status", "counter"),
    [
        ("GET /blog/3/", 200, "blog.Post.views:3"),
        ("GET /blog/3/", 500, None),
        ("POST /blog/3/like", 302, "blog.Post.likes:3"),
        ("POST /blog/3/like", 403, None),
        ("GET /blog/3/like", 405, None),
        ("GET /blog/3/download", 200, "downloads:post-3"),
        ("HEAD /blog/3/download", 200, None),
        ("GET /shop/3/", 200, "visits:product-3"),
        ("GET /shop/", 200, "visits:shop"),
        ("GET /live/counts.json", 200, None),
        ("POST /shop/3/buy", 200, "orders:shop"),
        ("POST /shop/3/buy", 409, None),
    ],
)
def test_which_counter_an_answer_has(request_line: str, status: int, counter: str | None) -> None:
    method, path = request_line.split(" ")
    assert counter_of(method, path, status) == counter


@pytest.mark.parametrize(
    ("status", "extra", "noted"),
    [
        ("200 OK", {}, {"visits:shop": 1}),
        ("200 OK", {"PATH_INFO": "/blog/3/download"}, {"downloads:post-3": 1}),
        (
            "302 Found",
            {"REQUEST_METHOD": "POST", "PATH_INFO": "/blog/3/like"},
            {"blog.Post.likes:3": 1},
        ),
        (
            "200 OK",
            {"REQUEST_METHOD": "POST", "PATH_INFO": "/shop/3/buy"},
            {"orders:shop": 1},
        ),
        ("200 OK", {"HTTP_X_LOAD": "load-1"}, {}),
        ("200 OK", {"UNCERTAIN": "yes"}, {"unknown:visits:shop": 1}),
        ("200 OK", {"REQUEST_METHOD": "HEAD"}, {}),
        ("404 Not Found", {}, {}),
        ("500 Internal Server Error", {}, {"failures": 1}),
    ],
)
def test_visitors_are_noted_apart_from_the_load(
    status: str, extra: dict[str, str], noted: dict[str, int]
) -> None:
    visitors = Tally()

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response(status, [(COUNTED_HEADER, UNKNOWN)] if "UNCERTAIN" in environ else [])
        return [b""]

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/shop/", **extra}
    Watched(application, visitors)(environ, lambda *_: None)
    assert visitors.sums() == noted


def test_the_load_notes_what_it_was_not_told() -> None:
    """With a real server and a real client: the second page says that it is uncertain."""
    sent = Tally()
    answers = iter([[], [(COUNTED_HEADER, UNKNOWN)]])

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", next(answers))
        return [b""]

    with serving(application, 0) as port:
        browser = Browser(Site("127.0.0.1", port, "load-1"), sent)
        for _ in range(2):
            browser.get("/shop/")
        browser.close()
    assert sent.sums() == {"requests": 2, "visits:shop": 1, "unknown:visits:shop": 1}


def test_an_order_that_a_visitor_sends_again_is_noted_once() -> None:
    visitors = Tally()
    answers = iter([[], [(REPLAYED_HEADER, "true")]])

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", next(answers))
        return [b""]

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/shop/3/buy"}
    for _ in range(2):
        Watched(application, visitors)(environ, lambda *_: None)
    assert visitors.sums() == {"orders:shop": 1}


@pytest.mark.parametrize("argv", [["--help"], ["replay", "--help"]])
def test_help_needs_no_django(argv: list[str]) -> None:
    code = f"import sys; from example_project import run; run.main({argv!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={}
    )
    assert "usage: python3 -m example_project" in done.stdout


@pytest.mark.parametrize("argv", [["--seconds", "0"], ["--port", "70000"], ["replay"]])
def test_wrong_arguments(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_chaos_needs_a_redis_of_its_own(
    before: verify.Snapshot, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--chaos", "--seconds", "1"]) == 2
    assert "unset REDIS_URL" in capsys.readouterr().err
