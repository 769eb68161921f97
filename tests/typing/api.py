"""Never run: the types that a user's checker sees."""

from __future__ import annotations

from typing import assert_type

from django_counters import CounterValue, Reading
from django_counters.models import Counter
from tests.testapp.models import Post, Product


def named() -> None:
    assert_type(Counter.objects.increment("a"), int)
    assert_type(Counter.objects.increment_many({"a": 1}), dict[str, int])
    assert_type(Counter.objects.values_of(["a"]), dict[str, int])
    assert_type(Counter.objects.read("a"), Reading)
    assert_type(Counter.objects.filter(key="a").increment(), int)


async def named_async() -> None:
    assert_type(await Counter.objects.aincrement("a"), int)


def fields(post: Post, product: Product) -> None:
    assert_type(post.views, CounterValue)
    assert_type(post.views + 1, int)
    assert_type(product.stock.decrement(2), CounterValue)
    assert_type(Post.objects.with_counts("views").get(), Post)
