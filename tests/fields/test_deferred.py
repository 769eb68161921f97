"""Counters whose number is not loaded, or not any more."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters.errors import InsufficientCount, InvalidKey, RecordMissing, ValueNotKnown
from django_counters.models import Counter
from tests.testapp.models import Device, Leaflet, NewsPage, Page, Post, Product, ProxyPage


@pytest.mark.django_db
def test_whoever_deletes_the_attribute_has_it_loaded_again() -> None:
    post = Post.objects.create(views=1)
    Post.objects.get().views.increment(10)
    del post.views
    assert post.get_deferred_fields() == {"views"}
    with pytest.raises(AttributeError, match="views"):
        del post.views
    assert post.views == 11
    Counter.objects.increment("a")
    counter = Counter.objects.get()
    Counter.objects.increment("a", 4)
    del counter.value
    assert counter.value == 5


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("loading", ["only", "defer"])
def test_async_code_counts_without_the_number(loading: str) -> None:
    pk = Post.objects.create(views=1).pk
    names = {"only": "title", "defer": "views"}

    async def calls() -> None:
        post = await getattr(Post.objects, loading)(names[loading]).aget(pk=pk)
        for use in (lambda: post.views + 1, lambda: str(post.views), lambda: post.views == 1):
            with pytest.raises(ValueNotKnown, match=r"arefresh_from_db\(fields=\['views'\]\)"):
                use()
        assert (await post.views.aread()).value == 1
        assert await post.views.aincrement(3) == 4
        assert post.views + 1 == 5

    async_to_sync(calls)()


@pytest.mark.django_db
class TestOfAKey:
    def test_who_has_not_loaded_the_number_counts_by_the_key_without_asking_for_it(self) -> None:
        Post.objects.create(views=1)
        post = Post.objects.defer("views").get()
        # A process asks for the content type once.
        Post.views.of(post.pk).increment()
        with CaptureQueriesContext(connection) as captured:
            assert Post.views.of(post.pk).increment() == 3
        assert [query["sql"].split()[0] for query in captured] == ["UPDATE"]
        # As the page says.
        with CaptureQueriesContext(connection) as captured:
            assert post.views.increment() == 4
        assert [query["sql"].split()[0] for query in captured] == ["SELECT", "UPDATE"]

    def test_it_counts_in_one_statement_and_keeps_what_the_field_promises(self) -> None:
        stored = Product.objects.create(stock=5)
        stock = Product.stock.of(str(stored.pk))
        # What the number of the model is, is asked once.
        stock.read()
        with CaptureQueriesContext(connection) as captured:
            assert (stock.increment(4), stock.decrement(2)) == (9, 7)
        assert len(captured) == 2
        with pytest.raises(InsufficientCount):
            stock.decrement(8)
        for replayed in (False, True):
            counted = stock.increment(3, token="delivery")
            assert (counted, counted.replayed) == (10, replayed)
        assert stock.adjust(to=2, expected=10, reason="counted by hand", actor="ann").after == 2
        assert stock.read().value == stock.value() == stock.value(consistency="cached") == 2
        assert async_to_sync(stock.aincrement)() == async_to_sync(stock.avalue)() == 3
        with pytest.raises(ValueNotKnown, match=r"no record was loaded; value\(\)"):
            stock + 1
        stored.delete()
        for call in (stock.increment, stock.read):
            with pytest.raises(RecordMissing):
                call()

    def test_the_key_is_that_of_the_model_it_is_asked_of(self) -> None:
        device, page = Device.objects.create(), NewsPage.objects.create()
        assert Device.events.of(device.pk).increment() == Device.events.of(str(device.pk)).value()
        for model in (Page, ProxyPage, NewsPage):
            model.hits.of(page.pk).increment(2)
        NewsPage.shares.of(page.pk).increment()
        page.refresh_from_db()
        assert (page.hits, page.shares) == (6, 1)
        leaflet = Leaflet.objects.create(code="a")
        assert (Leaflet.hits.of("a").increment(5), Leaflet.objects.get().hits) == (5, 5)
        with pytest.raises(RecordMissing):
            Page.hits.of(leaflet.page_id + 1).increment()

    @pytest.mark.parametrize("key", [None, "x", "", 1.0, True, 2**63, Product()])
    def test_what_no_record_can_have_is_refused(self, key: object) -> None:
        with pytest.raises(InvalidKey, match=r"no record of testapp\.Product"):
            Product.stock.of(key)
