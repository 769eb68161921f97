"""The check at the end of a run, and the whole run."""

from __future__ import annotations

from collections import Counter as Sums
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F
from django.utils.timezone import now

from django_counters.contrib.likes.models import CounterActor
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.top import CounterRank
from django_counters.fields import CounterField
from django_counters.models import Counter, CounterDelta, CounterShard, SlottedCounter
from django_counters.registry import registry
from django_counters.tables import CounterMeasure
from example_project import sales, seeds, verify
from example_project.blog.countries import cell, count_view
from example_project.blog.downloads import register
from example_project.blog.models import Post
from example_project.flow import Flow
from example_project.people import visit_of
from example_project.report import Report
from example_project.screen import written
from example_project.settling import settle
from example_project.shop import baskets
from example_project.shop.models import Product
from example_project.shop.orders import new_number, place
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
        by_week=verify.by_week(before, after, sent),
        by_person=verify.by_person(before, after, sent),
        sales=sales.sales(before, after, sent, "load-1"),
        flow=Flow(0, 0, 0),
        drifts=verify.drifts(),
    )


@pytest.mark.django_db(transaction=True)
def test_the_ranks_of_a_week_are_compared() -> None:
    """Of a database whose weeks are those of UTC, as that of the example is."""
    field = Post._meta.get_field("views")
    assert isinstance(field, CounterField)
    assert field.measure
    # Another test may have taken its row away.
    registry.forget_strategies()
    registry.measures("default").ensure(field.measure)
    assert CounterMeasure.objects.filter(name="blog.Post.views").update(zone="UTC") == 1
    registry.forget_strategies()
    try:
        seeds.sow()
        before, sent = verify.snapshot(), Sums[str]()
        for ago, country in ((0, "DE"), (0, ""), (2, "FR")):
            seen = now() - ago * DAY
            count_view(post(), country, seen)
            sent[cell(post(), country, seen).name()] += 1
            sent[f"blog.Post.views:{post().pk}"] += 1
        right = report(before, sent)
        assert (sum(row.counted for row in right.by_week), right.wrong) == (3, 0)
        CounterRank.objects.filter(period=CounterCell.Period.WEEK).update(value=F("value") + 1)
        assert report(before, sent).wrong == len(right.by_week)
    finally:
        registry.forget_strategies()


@pytest.fixture
def before(transactional_db: None) -> verify.Snapshot:
    seeds.sow()
    Counter.objects.increment("visits:shop", 5)
    register(post())
    for who in ("a", "b", "c", "d"):
        post().likes.increment(who=who)
    settle()
    return verify.snapshot()


def of_day(country: str) -> Any:
    """What has landed of the one view of a country: an hour, a day and a week."""
    settle()
    found = CounterCell._base_manager.filter(tags=country)
    assert found.count() == 3
    return found


def post() -> Post:
    return Post.objects.all()[0]


def sale() -> Product:
    return Product.objects.get(slug=seeds.SALE)


def sent() -> Sums[str]:
    """What was sent: one of each, three lamps, ten more lamps, a visitor's lamp, and baskets.

    Of one basket with two lamps one was bought, another one is held.
    """
    count_view(post(), "DE", now() - DAY)
    for who in ("e", "e", "f"):
        post().likes.increment(who=who)
    post().likes.decrement(who="a")
    register(post())
    Counter.objects.increment("visits:shop")
    place(sale(), 3, "load-1-7")
    place(sale(), 1, "a visitor")
    full, bought = new_number(), new_number()
    for number, quantity in ((full, 1), (bought, 2)):
        baskets.put(sale(), quantity, number)
    baskets.check_out(baskets.find(bought), 1, "load-1-basket-7")
    sale().stock.increment(10)
    names = (
        f"blog.Post.views:{post().pk}",
        f"blog.Post.likes:{post().pk}",
        f"downloads:post-{post().pk}",
        "visits:shop",
    )
    sold = {f"sold:{sale().pk}": 4, f"from baskets:{sale().pk}": 1}
    sums = {**sold, f"restocked:{sale().pk}": 10, ORDERS: 3}
    view = cell(post(), "DE", now() - DAY).name()
    return Sums({**dict.fromkeys((*names, view), 1), **sums})


def test_a_run_that_agrees(before: verify.Snapshot) -> None:
    found = report(before, sent())
    assert found.ok
    assert "Every counter is exact: counted = expected." in written(found)
    sums = found.as_json()
    for kind in ("views", "likes", "downloads", "visits"):
        assert sums[kind] == {"sent": 1, "counted": 1, "unknown": 0}
    assert sums["people_who_like"] == {"sent": 1, "counted": 1, "unknown": 0}
    assert sums["views_by_country"] == {"sent": 1, "counted": 1, "unknown": 0}
    (day,) = sums["days"]
    assert (day["counter"], day["ok"]) == (cell(post(), "DE", now() - DAY).name(), True)
    assert sums["orders"] == {"sent": 3, "counted": 3, "unknown": 0}
    lamp = next(one for one in found.sales if one.product == sale().name)
    assert lamp.numbers == (500, 10, 504, 1, 5, 5, 5, 1, 1)


def test_visitors_who_are_not_those_that_were_sent_are_noticed(before: verify.Snapshot) -> None:
    visits = [("a", True), ("a", True), ("b", True), ("c", False), ("b", False)]
    for who in ("a", "b", "a"):
        Counter.objects.increment("visits:shop", who=f"visitor:{who}")
    settle()
    after = verify.snapshot()
    load = Sums(visit_of("visits:shop", who, known=known) for who, known in visits)
    (count,) = verify.visitors(before, after, load, Sums())
    assert (count.ok, count.counted, count.expected, count.unknown) == (True, 2, 2, 1)
    missed = Sums(visit_of("visits:shop", who) for who in ("a", "b", "d"))
    assert [one.ok for one in verify.visitors(before, after, missed, Sums())] == [False]
    nobody = Sums([visit_of("visits:shop", "a")])
    assert [one.ok for one in verify.visitors(before, after, nobody, Sums())] == [False]
    assert [one.ok for one in verify.visitors(before, after, nobody, missed)] == [True]


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
        pytest.param(lambda: verify.baskets().filter(state=0).delete(), id="what is held is gone"),
        pytest.param(lambda: verify.baskets().filter(sold=1).delete(), id="a sold basket is gone"),
        pytest.param(lambda: verify.baskets().filter(sold=1).update(sold=2), id="sold too much"),
    ],
)
def test_a_difference_is_noticed(before: verify.Snapshot, tamper: Any) -> None:
    expected = sent()
    tamper()
    found = report(before, expected)
    # One counter, and where it is that of the likes, they are not their people any more.
    assert found.wrong - len(found.drifts) == 1
    assert not found.ok
    assert "FAILED" in written(found)


def test_likes_without_their_people_are_noticed(before: verify.Snapshot) -> None:
    expected = sent()
    CounterActor._base_manager.filter(actor="e").delete()
    found = report(before, expected)
    assert all(row.ok for row in found.counts)
    assert [(row.expected, row.counted, row.ok) for row in found.by_person] == [(1, 0, False)]
    key = f"blog.Post.likes:{post().pk}"
    assert found.drifts == [f"{key}: 5 instead of 4"]


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
