"""Never run: the types that a user's checker sees."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, assert_type

from django.http import HttpRequest, HttpResponse

from django_counters import (
    Appended,
    CachedCounterField,
    Counted,
    CountedMany,
    CounterValue,
    Reading,
    Unknown,
)
from django_counters.adjustments.models import CounterAdjustment
from django_counters.cached.flush import FlushReport, flush
from django_counters.contrib import likes, series, top
from django_counters.contrib.limits import Limit, LimitResult, limited
from django_counters.contrib.series import Occurred, OccurrencePoint, Point
from django_counters.contrib.series.models import CounterCell, CounterOccurrence
from django_counters.decimals import AmountReading, CountedAmount
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterShard,
    SlottedCounter,
    TotalField,
)
from tests.testapp.models import Account, Article, Post, Product, Ticket


def named() -> None:
    assert_type(Counter.objects.increment("a"), Counted | Unknown)
    assert_type(Counter.objects.increment_many({"a": 1}), CountedMany)
    assert_type(Counter.objects.maximum("a", 1), Counted | Unknown)
    assert_type(Counter.objects.values_of(["a"]), dict[str, int])
    assert_type(Counter.objects.read("a"), Reading)
    assert_type(Counter.objects.filter(key="a").increment(), int)


def search(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def limits() -> None:
    assert_type(limited("1/s")(search)(HttpRequest()), HttpResponse)
    assert_type(Limit("a", "1/s", burst=1).take("ann"), LimitResult)
    limited("1/s", by="adress")  # type: ignore[arg-type]


def rows() -> None:
    assert_type(Counter.objects.get(), Counter)
    assert_type(Counter.objects.filter(key="a").get(), Counter)
    assert_type(CounterShard.objects.get(), CounterShard)
    assert_type(CounterShard.objects.increment("a"), Counted | Unknown)
    assert_type(SlottedCounter.objects.get(), SlottedCounter)
    assert_type(CounterDelta.objects.append("a", 1), Appended)
    assert_type(CounterDelta.objects.filter(key="a").get(), CounterDelta)


def refused() -> None:
    """What would fail, or be wrong, where the settings say that no number is known."""
    result = Counter.objects.increment("a")
    _: int = result  # type: ignore[assignment]
    result + 1  # type: ignore[arg-type, operator]
    1 + result  # type: ignore[operator]
    2 * result  # type: ignore[operator]
    result * 2  # type: ignore[arg-type, operator]
    result % 10  # type: ignore[arg-type, operator]
    assert result > 1  # type: ignore[arg-type, operator]
    assert 1 < result  # type: ignore[operator]  # noqa: SIM300
    sum([result])  # type: ignore[list-item]
    range(result)  # type: ignore[arg-type]
    abs(result)  # type: ignore[arg-type]
    round(result)  # type: ignore[arg-type]
    if result.value is not None:
        print(result.value + 1)


async def asearch(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


async def named_async() -> None:
    assert_type(await limited("1/s", by="user")(asearch)(HttpRequest()), HttpResponse)
    assert_type(await Counter.objects.aincrement("a"), Counted | Unknown)
    assert_type(await Counter.objects.aadjust("a", by=1, reason="b", actor="c"), CounterAdjustment)
    assert_type(await Counter.objects.filter(key="a").aincrement(2), int)
    assert_type(await CounterShard.objects.adecrement("a"), Counted | Unknown)
    assert_type(await CounterDelta.objects.aappend("a", 1), Appended)
    await Counter.objects.areset("a", reason="b")  # type: ignore[call-arg]
    counts = series.of("a").per("day").last(2)
    assert_type(await counts.alist(), list[Point])
    assert_type(await counts.atotal(), int)
    assert_type(await counts.by("b").atotal(), dict[Any, int])
    assert_type(await top.alargest(counts, 3, against=1), list[top.Ranked])


async def fields_async(post: Post, account: Account) -> None:
    assert_type(await post.views.aread(max_age=1), Reading)
    assert_type(await post.views.adecrement(2, floor=0), Counted | Unknown)
    assert_type(await Post.objects.aincrement(views=1), int)
    assert_type(await likes.ahas_many([1], "ann", field=Post.likes), set[Any])
    assert_type(await account.balance.adecrement(Decimal("0.5")), CountedAmount | Unknown)
    assert_type(await account.balance.aread(), AmountReading)
    assert_type(await account.balance.avalue(), Decimal)


def fields(post: Post, product: Product) -> None:
    assert_type(post.views, CounterValue)
    assert_type(post.views + 1, int)
    assert_type(product.stock.decrement(2), Counted | Unknown)
    assert_type(Post.objects.with_counts("views").get(), Post)


def options(post: Post) -> None:
    """Keyword arguments are known where one type names them for several methods."""
    Counter.objects.decrement("a", flor=0)  # type: ignore[call-arg]
    Counter.objects.decrement("a", floor="0")  # type: ignore[arg-type]
    Counter.objects.value("a", max_age="1")  # type: ignore[arg-type]
    CounterShard.objects.decrement("a", floor=0)  # type: ignore[call-arg]
    SlottedCounter.objects.decrement(post, "views", shard_key=1)  # type: ignore[call-arg]
    post.views.decrement(shard_key=1)  # type: ignore[call-arg]
    post.views.adjust(by=1, actor="a")  # type: ignore[call-arg]
    post.views.reset(reason="a", actor="b", by=1)  # type: ignore[call-arg]
    Post.objects.adjust_many("views", by={1: 1}, reason="a", actor="b")  # type: ignore[call-arg]


def cached() -> None:
    objects = Counter.objects
    assert_type(objects.increment("a", immediately=True), Counted | Unknown)
    assert_type(objects.decrement("a", 2, immediately=True), Counted | Unknown)
    assert_type(objects.values_of(["a"], consistency="cached", max_age=5), dict[str, int])
    assert_type(objects.read("a", consistency="cached", max_age=0.5), Reading)
    assert_type(flush(), FlushReport)
    assert_type(flush("other", alone=True).quarantined, dict[str, int])


async def cached_async() -> None:
    objects = Counter.objects
    assert_type(await objects.adecrement("a", immediately=True), Counted | Unknown)
    assert_type(await objects.aincrement_many({"a": 1}), CountedMany)
    assert_type(await objects.avalues_of(["a"], consistency="cached"), dict[str, int])
    assert_type(await objects.aread("a", consistency="cached", max_age=5), Reading)


async def cached_fields(article: Article, ticket: Ticket) -> None:
    assert_type(article.claps, CounterValue)
    assert_type(article.reads.increment(immediately=True), Counted | Unknown)
    assert_type(article.claps.read(consistency="cached", max_age=5), Reading)
    assert_type(await article.claps.aincrement(), Counted | Unknown)
    assert_type(ticket.scans, CounterValue)
    assert_type(Article.objects.with_counts("reads", consistency="cached").get(), Article)
    assert_type(CachedCounterField(cache="a", on_redis_down="raise"), CachedCounterField)


def occurrences() -> None:
    counts = series.of("a").per("day").last(2)
    assert_type(counts.occurrences(), list[OccurrencePoint])
    assert_type(counts.occurred(), Occurred)
    assert_type(counts.occurred().mean, float | None)


def stored() -> None:
    """Also tables that the module of the models takes from elsewhere."""
    assert_type(CounterCell().value, int)
    assert_type(CounterOccurrence().value, int)
    assert_type(TotalField().name, str)
