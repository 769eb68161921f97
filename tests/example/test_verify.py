"""The check at the end of a run, and the whole run."""

from __future__ import annotations

from collections import Counter as Sums
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F
from django.utils.timezone import now

from django_counters.models import (
    Counter,
    CounterDelta,
    CounterShard,
    SlottedCounter,
)
from django_counters.tables import CounterCell
from example_project import seeds, verify
from example_project.blog.countries import cell, count_view
from example_project.blog.downloads import register
from example_project.blog.models import Post
from example_project.flow import Flow
from example_project.report import Report
from example_project.screen import written
from example_project.settling import settle
from example_project.shop.models import Product
from example_project.shop.orders import place
from example_project.tally import ORDERS
from tests.conftest import forget_pending

DAY = timedelta(days=1)


def report(before: verify.Snapshot, sent: Sums[str]) -> Report:
    assert settle() == []
    after = verify.snapshot()
    return Report(
        seconds=1.0,
        requests=1,
        refused=0,
        failed=0,
        failures=[],
        counts=verify.counts(before, after, sent),
        by_country=verify.by_country(before, after, sent),
        sales=verify.sales(before, after, sent, "load-1"),
        flow=Flow(0, 0, 0),
        drifts=verify.drifts(),
    )


@pytest.fixture
def before(transactional_db: None) -> verify.Snapshot:
    seeds.sow()
    Counter.objects.increment("visits:shop", 5)
    register(post())
    post().likes.increment(4)
    settle()
    return verify.snapshot()


def of_day(country: str) -> Any:
    """What has landed of the one view of a country: an hour and a day."""
    settle()
    found = CounterCell._base_manager.filter(tags=country)
    assert found.count() == 2
    return found


def post() -> Post:
    return Post.objects.all()[0]


def sale() -> Product:
    return Product.objects.get(slug=seeds.SALE)


def sent() -> Sums[str]:
    """What was sent: one of each, three lamps, ten more lamps, and a visitor's lamp."""
    count_view(post(), "DE", now() - DAY)
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
    view = cell(post(), "DE", now() - DAY).name()
    return Sums({**dict.fromkeys((*names, view), 1), **sums})


def test_a_run_that_agrees(before: verify.Snapshot) -> None:
    found = report(before, sent())
    assert found.ok
    assert "Every counter is exact: counted = expected." in written(found)
    sums = found.as_json()
    for kind in ("views", "likes", "downloads", "visits"):
        assert sums[kind] == {"sent": 1, "counted": 1, "unknown": 0}
    assert sums["views_by_country"] == {"sent": 1, "counted": 1, "unknown": 0}
    (day,) = sums["days"]
    assert (day["counter"], day["ok"]) == (cell(post(), "DE", now() - DAY).name(), True)
    assert sums["orders"] == {"sent": 2, "counted": 2, "unknown": 0}
    lamp = next(one for one in found.sales if one.product == sale().name)
    assert (lamp.before, lamp.restocked, lamp.left, lamp.sold, lamp.ordered) == (500, 10, 506, 4, 4)


def test_views_of_another_country_or_day_are_noticed(before: verify.Snapshot) -> None:
    """The sums agree, and what they are made of does not."""
    expected = sent()
    count_view(post(), "FR", now())
    expected[f"blog.Post.views:{post().pk}"] += 1
    expected[cell(post(), "FR", now() - DAY).name()] += 1
    found = report(before, expected)
    assert {row.counter: row.counted for row in found.by_country if not row.ok} == {
        cell(post(), "FR", now() - DAY).name(): 0,
        cell(post(), "FR", now()).name(): 1,
    }
    assert all(row.ok for row in found.counts)
    assert (found.ok, found.wrong) == (False, 2)
    assert "2 rows wrong" in written(found)


def test_a_view_of_which_nobody_knows_may_be_counted_or_not(before: verify.Snapshot) -> None:
    expected = sent()
    expected[cell(post(), "FR", now()).name(known=False)] += 1
    expected[f"unknown:blog.Post.views:{post().pk}"] += 1
    assert report(before, expected).ok
    count_view(post(), "FR", now())
    assert report(before, expected).ok
    count_view(post(), "FR", now())
    assert not report(before, expected).ok


@pytest.mark.parametrize(
    "tamper",
    [
        pytest.param(lambda: of_day("DE").update(value=F("value") + 1), id="a view too many"),
        pytest.param(lambda: of_day("DE").delete(), id="the view of a day is gone"),
        pytest.param(lambda: Post.objects.filter(pk=post().pk).update(views=7), id="views set"),
        pytest.param(lambda: SlottedCounter.objects.all().delete(), id="slots gone"),
        pytest.param(lambda: Post.objects.filter(pk=post().pk).update(likes=1), id="likes set"),
        pytest.param(lambda: CounterShard.objects.all().delete(), id="shards gone"),
        pytest.param(lambda: Counter.objects.increment("downloads:post-0"), id="no such post"),
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
