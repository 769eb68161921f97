"""Querysets that count, and others who change the same records meanwhile."""

from __future__ import annotations

import random
from collections import Counter as Sums
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from django_counters import CounterQuerySet
from django_counters.errors import InsufficientCount, RecordMissing
from django_counters.models import SlottedCounter
from django_counters.types import Bounds
from tests.concurrency.crowd import Threads
from tests.concurrency.servers import hurry, waiting
from tests.concurrency.waiting import until
from tests.testapp.models import NewsPage, Page, Post, Song

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
Elsewhere = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def posts() -> list[Post]:
    return [Post.objects.create(views=n, likes=10) for n in range(4)]


def counts() -> list[tuple[int, int]]:
    return list(Post.objects.order_by("pk").values_list("views", "likes"))


@pytest.mark.parametrize(
    ("model", "one", "other"), [(Post, "views", "likes"), (NewsPage, "hits", "shares")]
)
def test_crowds_in_any_order_are_counted_exactly_and_never_deadlock(
    model: Any, one: str, other: str
) -> None:
    """Of one table, at once, and of two, in several statements."""
    pks = [model.objects.create().pk for _ in range(12)]

    def work(number: int) -> list[int]:
        chance, counted = random.Random(number), []
        for turn in range(40):
            some = chance.sample(pks, 6)
            rows: Any = (
                CounterQuerySet(model).filter(pk__in=some).order_by("-pk" if number % 2 else "pk")
            )
            # Chosen by the query itself, or by a condition on the key.
            rows = rows if turn % 2 else rows.distinct()
            assert rows.increment(**{one: 2, other: -1}) == 6
            counted += some
        return counted

    calls = Sums(pk for counted in Threads(6).run(work) for pk in counted)
    for pk, up, down in model.objects.values_list("pk", one, other):
        assert (up, down) == (2 * calls[pk], -calls[pk])


@pytest.mark.parametrize("kind", ["at once", "held"])
def test_rows_are_held_in_the_order_of_their_keys(
    posts: list[Post], kind: str, elsewhere: Elsewhere
) -> None:
    """Whoever waits for one row holds none with a greater key."""
    if kind == "held":
        # What waits elsewhere sends the call on, to several statements.
        SlottedCounter.objects.increment(posts[0], "likes", 5)

    def call() -> int:
        try:
            return Post.objects.order_by("-pk").increment(views=1, likes=1)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        posts[1].views.increment()
        counting = pool.submit(call)
        until(lambda: elsewhere(waiting) == 1, "waiting")
        hurry(2_000)
        posts[3].views.increment()
    assert counting.result() == 4
    assert [views for views, _ in counts()] == [1, 3, 3, 5]


@pytest.mark.parametrize("kind", ["at once", "held"])
def test_rows_are_looked_at_again_once_they_are_held(
    posts: list[Post], kind: str, elsewhere: Elsewhere
) -> None:
    """Who leaves the queryset while the call waits is left out; what remains is what there is."""
    if kind == "held":
        SlottedCounter.objects.increment(posts[0], "likes", 5)

    def call() -> int:
        try:
            return Post.objects.filter(views__lt=50).increment(likes=1, views=1)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            posts[1].views.increment(50)
            posts[2].likes.increment(5)
            Post.objects.filter(pk=posts[3].pk).delete()
            counting = pool.submit(call)
            until(lambda: elsewhere(waiting) == 1, "waiting")
        assert counting.result() == 2
    assert counts() == [(1, 11), (51, 10), (3, 16)]


@pytest.mark.postgresql  # what is changed by one statement there takes several elsewhere
def test_a_record_that_is_deleted_meanwhile_is_missing(elsewhere: Elsewhere) -> None:
    songs = [Song.objects.create() for _ in range(2)]

    def delete_first(execute: Any, sql: str, *arguments: Any) -> Any:
        if "django_counters_slot(" in sql:
            elsewhere(Song.objects.filter(pk=songs[1].pk).delete)
        return execute(sql, *arguments)

    with connection.execute_wrapper(delete_first), pytest.raises(RecordMissing) as missing:
        Song.objects.increment(plays=1)
    assert missing.value.key == f"testapp.Song.plays:{songs[1].pk}"
    assert Song.objects.with_counts().get().plays == 0


def test_fields_of_two_tables_are_looked_at_while_they_are_held(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Page._meta.get_field("hits"), "bounds", Bounds(0))
    page = NewsPage.objects.create(hits=10)

    def call() -> int:
        try:
            return CounterQuerySet(NewsPage).decrement(hits=5, shares=1)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            page.hits.decrement(7)
            counting = pool.submit(call)
            until(lambda: elsewhere(waiting) == 1, "waiting")
        with pytest.raises(InsufficientCount) as short:
            counting.result()
    assert short.value.available == 3
    assert NewsPage.objects.values_list("hits", "shares").get() == (3, 0)
