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

from django_counters.models import (
    Counter,
    CounterAdjustment,
    CounterDelta,
    CounterShard,
    SlottedCounter,
)
from django_counters.testing import override_counters
from django_counters.upkeep.rollup import rollup
from example_project import seeds, verify
from example_project.blog.downloads import register
from example_project.blog.models import Post
from example_project.corrections import noting
from example_project.flow import Flow
from example_project.report import Report
from example_project.run import main
from example_project.screen import written
from example_project.settings import COUNTERS
from example_project.settling import settle
from example_project.shop.models import Product
from example_project.shop.orders import place
from example_project.tally import (
    ORDERS,
    Tally,
    together,
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


def adjust() -> None:
    """What a person may do in the admin meanwhile, of each strategy."""
    why: dict[str, Any] = {"reason": "Somebody has looked closely", "actor": "somebody"}
    post().views.adjust(by=-2, **why)
    post().likes.adjust(by=-3, **why)
    Counter.objects.adjust(f"downloads:post-{post().pk}", to=0, **why)
    Counter.objects.adjust("visits:shop", by=-4, **why)
    Counter.objects.adjust(ORDERS, by=-1, **why)
    sale().stock.adjust(by=-5, **why)


def test_what_is_adjusted_meanwhile_is_expected(before: verify.Snapshot) -> None:
    tally = Tally()
    with noting(tally):
        adjust()
    assert sum(tally.sums().values()) == -2 - 3 - 1 - 4 - 1 - 5
    expected = sent()
    expected.update(together(tally))
    found = report(before, expected)
    assert found.ok
    assert found.as_json()["likes"] == {"sent": -2, "counted": -2, "unknown": 0}
    lamp = next(one for one in found.sales if one.product == sale().name)
    assert (lamp.before, lamp.restocked, lamp.left, lamp.sold) == (500, 5, 501, 4)


def test_what_is_adjusted_and_not_noted_is_noticed(before: verify.Snapshot) -> None:
    tally = Tally()
    with noting(tally):
        pass
    adjust()
    assert together(tally) == {}
    assert report(before, sent()).wrong == 6


def test_what_is_wrong_from_the_beginning_is_adjusted_once(before: verify.Snapshot) -> None:
    for _ in range(2):
        seeds.correct()
        assert Product.objects.get(slug="mug").stock == 38
        assert Counter.objects.value(seeds.PHONE) == 11
        assert CounterAdjustment.objects.count() == 2
    assert verify.drifts() == []
    # After a fresh start there is something to adjust again; what was, stays written down.
    seeds.clear_site()
    seeds.sow()
    seeds.correct()
    assert Counter.objects.value(seeds.PHONE) == 11
    assert CounterAdjustment.objects.count() == 4
    assert verify.drifts() == []


def test_what_is_sold_out_is_not_adjusted_below_its_floor(before: verify.Snapshot) -> None:
    Product.objects.get(slug="mug").stock.decrement(39)
    seeds.correct()
    assert Product.objects.get(slug="mug").stock == 1


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
