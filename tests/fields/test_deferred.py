"""Counters whose number is not loaded, or not any more."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync

from django_counters.exceptions import ValueNotKnown
from django_counters.models import Counter
from tests.testapp.models import Post


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
