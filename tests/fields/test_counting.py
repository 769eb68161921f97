"""The promises of a counter in a model's row: counting."""

from __future__ import annotations

import uuid

import pytest
import yaml
from asgiref.sync import async_to_sync
from django.core.cache import cache
from django.db import connection, transaction
from django.db.models import F, Sum
from django.test.utils import CaptureQueriesContext
from redis.exceptions import ResponseError

from django_counters.errors import (
    CeilingExceeded,
    CounterOverflow,
    InitialOutOfBounds,
    InsufficientCount,
    InvalidDelta,
    RecordMissing,
    UnsavedInstance,
)
from django_counters.types import INT8
from tests.testapp.models import (
    DatabaseDefault,
    Device,
    NewsPage,
    Page,
    Post,
    Product,
    ProxyPage,
    Small,
)

pytestmark = pytest.mark.django_db


def test_an_int_for_code_that_compares_the_exact_type() -> None:
    """The caveat of the how-to, and its remedy."""
    post, key = Post.objects.create(views=3), f"views:{uuid.uuid4()}"
    with pytest.raises(yaml.representer.RepresenterError):
        yaml.safe_dump(post.views)
    assert yaml.safe_dump([int(post.views)]) == "- 3\n"
    cache.set(key, post.views, 60)
    with pytest.raises(ResponseError):
        cache.incr(key)
    cache.set(key, int(post.views), 60)
    assert cache.incr(key) == 4


def test_a_value_is_an_int_that_can_count() -> None:
    post = Post.objects.create(views=3)
    assert isinstance(post.views, int)
    assert post.views == 3
    assert post.views + 1 == 4
    assert f"{post.views:04d} {post.views!r} {post.views}" == "0003 3 3"
    assert post.views.increment() == 4
    assert post.views.increment(5) == 9
    assert post.views.decrement(2) == 7
    assert post.views == 7
    assert Post.objects.get().views == 7


def test_counting_is_one_statement_and_starts_from_the_row() -> None:
    post = Post.objects.create()
    stale = Post.objects.get(pk=post.pk)
    post.views.increment(10)
    with CaptureQueriesContext(connection) as captured:
        assert stale.views.increment() == 11
    assert len(captured) == 1


def test_a_floor_and_a_ceiling_hold() -> None:
    product = Product.objects.create(stock=5)
    with pytest.raises(InsufficientCount) as short:
        product.stock.decrement(6)
    assert short.value.key == f"testapp.Product.stock:{product.pk}"
    assert (short.value.requested, short.value.available, short.value.floor) == (6, 5, 0)
    with pytest.raises(CeilingExceeded) as full:
        product.stock.increment(996)
    assert full.value.available == 995
    with pytest.raises(InsufficientCount):
        product.stock.decrement(5, floor=1)
    with pytest.raises(InsufficientCount):
        product.stock.decrement(6, floor=-10)
    assert product.stock.decrement(5) == 0


def test_an_initial_value_obeys_the_bounds() -> None:
    for stock in (-1, 1001, "-5", -5.0):
        with pytest.raises(InitialOutOfBounds), transaction.atomic():
            Product.objects.create(stock=stock)  # type: ignore[misc]
    assert not Product.objects.exists()


def test_the_range_of_the_column_is_kept() -> None:
    post = Post.objects.create(views=INT8[1])
    with pytest.raises(CounterOverflow):
        post.views.increment()
    small = Small.objects.create(hits=2**31 - 1)
    with pytest.raises(CounterOverflow):
        small.hits.increment()
    with pytest.raises(CounterOverflow):
        small.hits.increment(2**40)
    assert small.hits.decrement(2**32 - 1) == -(2**31)
    with pytest.raises(CounterOverflow):
        small.hits.decrement()


def test_an_unsaved_instance_cannot_count() -> None:
    for post in (Post(), Post(pk=5), Post(views=3)):
        with pytest.raises(UnsavedInstance):
            post.views.increment()


def test_a_row_that_is_gone_cannot_count() -> None:
    post = Post.objects.create()
    Post.objects.all().delete()
    with pytest.raises(RecordMissing) as caught:
        post.views.increment()
    assert caught.value.key == f"testapp.Post.views:{post.pk}"
    assert post.views == 0


def test_a_bad_delta_changes_nothing() -> None:
    post = Post.objects.create(views=1)
    for delta in (True, 1.0, "1", None, 2**63):
        with pytest.raises(InvalidDelta):
            post.views.increment(delta)  # type: ignore[arg-type]
    assert Post.objects.get().views == 1


def test_primary_keys_of_other_types() -> None:
    device = Device.objects.create()
    other = Device.objects.create(id=uuid.uuid4())
    assert device.events.increment(2) == 2
    assert Device.objects.get(pk=device.pk).events == 2
    assert Device.objects.get(pk=other.pk).events == 0


def test_inherited_counters() -> None:
    news = NewsPage.objects.create(title="n")
    assert news.hits.increment(2) == 2
    assert news.shares.increment(3) == 3
    assert Page.objects.get().hits == 2
    page = Page.objects.get()
    assert page.hits.increment() == 3
    proxy = ProxyPage.objects.get()
    assert proxy.hits.increment() == 4
    news.save()
    news.refresh_from_db()
    assert (news.hits, news.shares) == (4, 3)


def test_a_default_of_the_database() -> None:
    row = DatabaseDefault.objects.create()
    row.refresh_from_db()
    assert row.hits.increment() == 8
    assert DatabaseDefault.objects.create(hits=1).hits == 1


@pytest.mark.django_db(databases=["default", "other"])
def test_using_chooses_the_database() -> None:
    post = Post.objects.using("other").create(pk=77)
    assert post.views.increment() == 1
    Post.objects.create(pk=77)
    assert post.views.increment(5, using="default") == 5
    assert Post.objects.using("other").get().views == 1


@pytest.mark.django_db(transaction=True)
def test_async_twins() -> None:
    async def calls() -> None:
        post = await Post.objects.acreate()
        assert await post.views.aincrement(3) == 3
        assert await post.views.adecrement() == 2

    async_to_sync(calls)()
    assert Post.objects.get().views == 2


def test_querysets_see_a_plain_integer_column() -> None:
    Post.objects.bulk_create([Post(title=str(n), views=n) for n in range(5)])
    assert list(
        Post.objects.filter(views__gte=3).order_by("-views").values_list("views", flat=True)
    ) == [4, 3]
    assert Post.objects.aggregate(total=Sum("views")) == {"total": 10}
    assert Post.objects.filter(views=F("likes")).count() == 1
    assert Post.objects.values("views").order_by("views").first() == {"views": 0}
    post = Post.objects.get(title="3")
    assert Post.objects.filter(views=post.views).get() == post
    assert Post.objects.filter(views__lt=post.views).count() == 3
    assert Post.objects.filter(views__in=[post.views]).count() == 1
    assert Post.objects.annotate(more=post.views + F("views")).get(title="4").more == 7


def test_with_counts_brings_the_values_with_the_rows() -> None:
    Post.objects.bulk_create([Post(views=n) for n in range(5)])
    with CaptureQueriesContext(connection) as captured:
        found = [
            post.views
            for post in Post.objects.only("title").with_counts("views").order_by("-views")
        ]
        assert found == [4, 3, 2, 1, 0]
        assert [post.likes for post in Post.objects.defer("views", "likes").with_counts()] == [
            0
        ] * 5
    assert len(captured) == 2
