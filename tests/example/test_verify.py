"""The check at the end of a run, and the whole run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter as Sums
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection

from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.testing import override_counters
from django_counters.upkeep.rollup import rollup
from example_project import seeds, verify
from example_project.blog.downloads import register
from example_project.blog.models import Post
from example_project.report import Report
from example_project.run import main
from example_project.screen import written
from example_project.settings import COUNTERS
from example_project.shop.models import Product
from example_project.shop.views import purchase
from example_project.tally import Tally, Watched, counter_of


def report(before: verify.Snapshot, sent: Sums[str], failed: int = 0) -> Report:
    after = verify.snapshot()
    return Report(
        seconds=1.0,
        requests=1,
        refused=0,
        failed=failed,
        failures=["GET /: HTTP 500"] * failed,
        counts=verify.counts(before, after, sent),
        sales=verify.sales(before, after, sent, "load-1"),
    )


@pytest.fixture
def before(db: None) -> Iterator[verify.Snapshot]:
    with override_counters(**COUNTERS):
        seeds.sow()
        Counter.objects.increment("visits:shop", 5)
        register(post())
        post().likes.increment(4)
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
    purchase(sale(), 3, "load-1-7")
    purchase(sale(), 1, "a visitor")
    sale().stock.increment(10)
    names = (
        f"blog.Post.views:{post().pk}",
        f"blog.Post.likes:{post().pk}",
        f"downloads:post-{post().pk}",
        "visits:shop",
    )
    return Sums({**dict.fromkeys(names, 1), f"sold:{sale().pk}": 3, f"restocked:{sale().pk}": 10})


def test_a_run_that_agrees(before: verify.Snapshot) -> None:
    found = report(before, sent())
    assert found.ok
    assert "Every counter is exact." in written(found)
    sums = found.as_json()
    for kind in ("views", "likes", "downloads", "visits"):
        assert sums[kind] == {"sent": 1, "counted": 1}
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
        pytest.param(lambda: Counter.objects.all().delete(), id="counters gone"),
        pytest.param(lambda: sale().stock.decrement(1), id="stock without an order"),
        pytest.param(lambda: sale().orders.filter(quantity=3).delete(), id="an order gone"),
        pytest.param(lambda: purchase(sale(), 1, "load-1-8"), id="an answer that was never sent"),
    ],
)
def test_a_difference_is_noticed(before: verify.Snapshot, tamper: Any) -> None:
    expected = sent()
    tamper()
    found = report(before, expected)
    assert not found.ok
    assert found.wrong == 1
    assert "FAILED" in written(found)


def test_a_rollup_changes_no_value(before: verify.Snapshot) -> None:
    expected = sent()
    assert rollup().rows > 0
    assert report(before, expected).ok
    assert rollup().rows == 0
    assert report(before, expected).ok


def test_a_fresh_start_takes_everything_away(before: verify.Snapshot) -> None:
    rollup()
    sent()
    assert "6 posts and 2 counters of downloads:, visits:" in seeds.clear_site()
    assert verify.snapshot().counts == {}
    assert not SlottedCounter.objects.exists()
    assert not CounterShard.objects.exists()


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
    assert Post.objects.all()[0].views == 1


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
        ("POST /shop/3/buy", 200, None),
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
        ("200 OK", {"HTTP_X_LOAD": "load-1"}, {}),
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
        start_response(status, [])
        return [b""]

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/shop/", **extra}
    Watched(application, visitors)(environ, lambda *_: None)
    assert visitors.sums() == noted


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


@pytest.mark.postgres
def test_the_whole_run(transactional_db: None) -> None:
    found = exact_run(_url())
    assert found["sales"][0]["sold"] > 0


def test_the_whole_run_on_sqlite(tmp_path: Path) -> None:
    exact_run(f"sqlite:///{tmp_path / 'example.db'}")


def exact_run(url: str) -> dict[str, Any]:
    """Run the example for some seconds, and return what it prints."""
    code = "import sys; from example_project import run; sys.exit(run.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "--seconds", "5", "--check", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "DATABASE_URL": url},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["ok"]
    assert found["failures"] == []
    for kind in ("views", "likes", "downloads", "visits"):
        assert found[kind]["sent"] == found[kind]["counted"] > 0
    assert found["folded"] > 0
    return found


def _url() -> str:
    parts = connection.settings_dict
    login = quote(parts["USER"]) + (f":{quote(parts['PASSWORD'])}" if parts["PASSWORD"] else "")
    host = f"?host={quote(parts['OPTIONS'].get('host') or parts['HOST'] or '/tmp')}"
    port = parts["OPTIONS"].get("port") or parts["PORT"]
    return f"postgres://{login}@/{parts['NAME']}{host}" + (f"&port={port}" if port else "")
