"""The check at the end of a run, and the whole run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter as Sums
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection

from django_counters.models import Counter
from example_project import seeds, verify
from example_project.blog.models import Post
from example_project.report import Report
from example_project.run import main
from example_project.screen import written
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
def before(db: None) -> verify.Snapshot:
    seeds.sow()
    Counter.objects.increment("visits:shop", 5)
    return verify.snapshot()


def sale() -> Product:
    return Product.objects.get(slug=seeds.SALE)


def sent() -> Sums[str]:
    """What was sent: one view, one visit, three lamps, ten more lamps, and a visitor's lamp."""
    post = Post.objects.all()[0]
    post.views.increment()
    Counter.objects.increment("visits:shop")
    purchase(sale(), 3, "load-1-7")
    purchase(sale(), 1, "a visitor")
    sale().stock.increment(10)
    names = (f"blog.Post.views:{post.pk}", "visits:shop")
    return Sums({**dict.fromkeys(names, 1), f"sold:{sale().pk}": 3, f"restocked:{sale().pk}": 10})


def test_a_run_that_agrees(before: verify.Snapshot) -> None:
    found = report(before, sent())
    assert found.ok
    assert "Every counter is exact." in written(found)
    lamp = next(one for one in found.sales if one.product == sale().name)
    assert (lamp.before, lamp.restocked, lamp.left, lamp.sold, lamp.ordered) == (500, 10, 506, 4, 4)


@pytest.mark.parametrize(
    "tamper",
    [
        pytest.param(lambda: Post.objects.all()[1].views.increment(1), id="a view too many"),
        pytest.param(lambda: Post.objects.all()[0].views.decrement(1), id="a view too few"),
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
    ("path", "counter"),
    [
        ("/blog/3/", "blog.Post.views:3"),
        ("/shop/3/", "visits:product-3"),
        ("/shop/", "visits:shop"),
        ("/live/counts.json", None),
        ("/shop/3/buy", None),
    ],
)
def test_which_counter_a_page_has(path: str, counter: str | None) -> None:
    assert counter_of(path) == counter


@pytest.mark.parametrize(
    ("status", "extra", "noted"),
    [
        ("200 OK", {}, {"visits:shop": 1}),
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
    code = "import sys; from example_project import run; sys.exit(run.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "--seconds", "3", "--check", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "DATABASE_URL": _url()},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"]
    assert found["failures"] == []
    assert found["views"]["sent"] == found["views"]["counted"] > 0
    assert found["sales"][0]["sold"] > 0


def _url() -> str:
    parts = connection.settings_dict
    login = quote(parts["USER"]) + (f":{quote(parts['PASSWORD'])}" if parts["PASSWORD"] else "")
    host = f"?host={quote(parts['OPTIONS'].get('host') or parts['HOST'] or '/tmp')}"
    port = parts["OPTIONS"].get("port") or parts["PORT"]
    return f"postgres://{login}@/{parts['NAME']}{host}" + (f"&port={port}" if port else "")
