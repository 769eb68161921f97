"""Several fields of many records, counted by their queryset."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import FieldError
from django.db import NotSupportedError, connection, models, transaction
from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber
from django.template import Context, Template
from django.test.utils import CaptureQueriesContext

from django_counters import CounterQuerySet
from django_counters.cached.flush import flush
from django_counters.errors import (
    CeilingExceeded,
    CounterOverflow,
    CounterUnavailable,
    InsufficientCount,
    InvalidDelta,
    OutcomeUnknown,
)
from django_counters.models import SlottedCounter
from django_counters.signals import batch_applied
from django_counters.testing import isolated_counters
from django_counters.types import INT8, Bounds
from tests.testapp.models import (
    Article,
    Device,
    Leaflet,
    LiveTrack,
    Lyrics,
    NewsPage,
    Page,
    Post,
    ProxyPage,
    Release,
    Small,
    Song,
    Track,
)

pytestmark = pytest.mark.django_db(transaction=True)
ONE_STATEMENT = connection.vendor == "postgresql"


def of(model: type[models.Model]) -> CounterQuerySet[Any]:
    return CounterQuerySet(model)


def counts(model: type[models.Model], *names: str) -> list[Any]:
    rows = model._base_manager.order_by("pk").values_list(*names, flat=len(names) == 1)
    return list(rows)


@pytest.fixture
def posts() -> list[Post]:
    return [Post.objects.create(title=str(n % 2), views=n, likes=10) for n in range(4)]


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The likes of a post have a floor, too."""
    monkeypatch.setattr(Post._meta.get_field("likes"), "bounds", Bounds(0, 100))


def test_every_field_of_every_record_is_changed_in_one_statement(posts: list[Post]) -> None:
    chosen = Post.objects.filter(title="1").order_by("-views")
    list(chosen)
    SlottedCounter.objects.read(posts[0], "views")  # the content type is known from here on
    with CaptureQueriesContext(connection) as captured:
        assert chosen.increment(views=5, likes=-3) == 2
    assert len(captured) == 1 or not ONE_STATEMENT
    assert counts(Post, "views", "likes") == [(0, 10), (6, 7), (2, 10), (8, 7)]
    assert [post.views for post in chosen] == [8, 6]
    assert Post.objects.filter(pk=posts[0].pk).decrement(views=1, likes=INT8[1]) == 1
    assert counts(Post, "views", "likes")[0] == (-1, 10 - INT8[1])
    with CaptureQueriesContext(connection) as captured:
        assert Post.objects.none().increment(views=1) == 0
        assert Post.objects.filter(pk__in=[]).increment(views=1) == 0
    assert not captured or not ONE_STATEMENT
    assert Post.objects.filter(title="2").increment(views=1) == 0


@pytest.mark.parametrize(
    "chosen",
    [
        lambda: Post.objects.with_counts("views").filter(views=3),
        lambda: Post.objects.annotate(twice=F("views") * 2).filter(twice__gt=4),
        lambda: Post.objects.annotate(n=Count("pk")).filter(n=1, views=3),
        lambda: Post.objects.annotate(n=Window(RowNumber(), order_by="pk")).filter(n=4),
        lambda: Post.objects.filter(views=3).distinct().values("title"),
        lambda: Post.objects.filter(views=3).select_for_update(),
        lambda: Post.objects.extra(select={"likes": "1"}, where=["views = 3"]),
        lambda: Post.objects.filter(title__regex="%|1").exclude(views=1).reverse(),
        pytest.param(
            lambda: Post.objects.filter(pk__in=Post.objects.order_by("-views")[:1]),
            marks=pytest.mark.skipif(
                not connection.features.allow_sliced_subqueries_with_in,
                reason=f"{connection.vendor} takes no such queryset",
            ),
        ),
    ],
)
def test_any_queryset_that_chooses_records(posts: list[Post], chosen: Any) -> None:
    assert chosen().increment(views=7, likes=1) == 1
    assert counts(Post, "views", "likes")[2:] == [(2, 10), (10, 11)]
    del posts


def test_a_queryset_through_a_relation_counts_each_record_once(posts: list[Post]) -> None:
    del posts
    songs = [Song.objects.create() for _ in range(2)]
    for song in songs:
        Lyrics.objects.create(song=song)
    assert Song.objects.filter(lyrics__reads=0, lyrics__isnull=False).increment(skips=2) == 2
    assert Lyrics.objects.filter(song__skips=2).increment(reads=3) == 2
    assert Lyrics.objects.with_counts().values_list("reads", flat=True).first() == 3
    assert counts(Song, "skips") == [2, 2]


@pytest.mark.usefixtures("bounded")
def test_a_bound_of_one_field_of_one_record_keeps_everything_as_it_was(posts: list[Post]) -> None:
    posts[2].likes.decrement(9)
    before = counts(Post, "views", "likes")
    for sign in (1, -1):
        with transaction.atomic():
            posts[0].views.increment()
            with pytest.raises(InsufficientCount) as short:
                count = Post.objects.increment if sign > 0 else Post.objects.decrement
                count(views=sign, likes=-2 * sign)
            posts[0].views.decrement()
        assert short.value.key == f"testapp.Post.likes:{posts[2].pk}"
        assert (short.value.requested, short.value.available, short.value.floor) == (2, 1, 0)
        assert len(short.value.shortfalls) == 1
        assert counts(Post, "views", "likes") == before
    with pytest.raises(CeilingExceeded) as full:
        Post.objects.all().increment(views=1, likes=91)
    assert [one.key for one in full.value.shortfalls] == [
        f"testapp.Post.likes:{post.pk}" for post in posts if post is not posts[2]
    ]
    with pytest.raises(CeilingExceeded):
        Post.objects.all().increment(likes=INT8[1])
    assert counts(Post, "views", "likes") == before
    # Only the bound that a value moves towards is asked.
    Post.objects.filter(pk=posts[0].pk).update(likes=-5)
    assert Post.objects.all().increment(likes=1) == 4
    assert counts(Post, "likes") == [-4, 11, 2, 11]


def test_a_sum_that_does_not_fit_changes_nothing(posts: list[Post]) -> None:
    Post.objects.filter(pk=posts[3].pk).update(views=INT8[1])
    with pytest.raises(CounterOverflow) as over:
        Post.objects.all().increment(likes=1, views=1)
    assert over.value.key == f"testapp.Post.views:{posts[3].pk}"
    assert counts(Post, "likes") == [10] * 4
    Small.objects.create(hits=-(2**31))
    for by in (1, 2**40):
        with pytest.raises(CounterOverflow):
            of(Small).decrement(hits=by)
    assert of(Small).increment(hits=2**32 - 1) == 1
    assert counts(Small, "hits") == [2**31 - 1]


def test_what_still_waits_in_slots_is_part_of_the_value(
    posts: list[Post], request: pytest.FixtureRequest
) -> None:
    """As after a change of strategy: nobody is refused while there is enough."""
    SlottedCounter.objects.increment(posts[1], "likes", 5)
    SlottedCounter.objects.decrement(posts[2], "likes", 8)
    request.getfixturevalue("bounded")
    with pytest.raises(InsufficientCount) as short:
        Post.objects.decrement(likes=5)
    assert (short.value.key, short.value.available) == (f"testapp.Post.likes:{posts[2].pk}", 2)
    Post.objects.filter(pk=posts[2].pk).update(likes=18)
    assert Post.objects.decrement(likes=10, views=1) == 4
    with pytest.raises(InsufficientCount) as short:
        Post.objects.filter(pk=posts[1].pk).decrement(likes=6)
    assert short.value.available == 5
    assert Post.objects.filter(pk=posts[1].pk).decrement(likes=5) == 1
    assert counts(Post, "likes") == [0, -5, 8, 0]
    assert counts(Post, "views") == [-1, 0, 1, 2]


def test_what_is_refused_says_why(posts: list[Post]) -> None:
    every = Post.objects.all()
    calls: Any = (
        (every.increment, TypeError, "needs the name"),
        (lambda: every.decrement(title=1), FieldError, "known: likes, views"),
        (lambda: every.increment(views=1, pages=1), FieldError, "pages"),
        (lambda: every.increment(token="t"), FieldError, "token"),  # type: ignore[arg-type]
        (lambda: every.increment(views=1, likes=True), InvalidDelta, "bool"),
        (lambda: every.increment(views=F("likes")), InvalidDelta, "F"),  # type: ignore[arg-type]
        (lambda: every.decrement(views=INT8[0]), InvalidDelta, "64 bits"),
        (lambda: every[:2].increment(views=1), TypeError, "slice"),
        (lambda: every.distinct("title").increment(views=1), TypeError, "distinct"),
        (lambda: every.union(every).decrement(views=1), NotSupportedError, "decrement"),
    )
    for wrong, error, match in calls:
        with pytest.raises(error, match=match):
            wrong()
    assert counts(Post, "views") == [0, 1, 2, 3]
    text = "{{ posts.increment }}{{ posts.all.adecrement }}"
    assert Template(text).render(Context({"posts": Post.objects})) == ""
    del posts


def test_inherited_fields_are_changed_where_they_stand() -> None:
    for n in range(3):
        Page.objects.create()
        NewsPage.objects.create(title=str(n), shares=n)
        Leaflet.objects.create(code=str(9 - n))
    assert of(NewsPage).filter(shares__gt=0, hits=0).increment(hits=2) == 2
    assert of(NewsPage).filter(hits=2).order_by("-title").increment(shares=4, hits=1) == 2
    assert counts(NewsPage, "hits", "shares") == [(0, 0), (3, 5), (3, 6)]
    assert of(Leaflet).filter(code__gt="7").increment(hits=5) == 2
    assert of(ProxyPage).filter(title="1").increment(hits=1) == 1
    assert dict(Leaflet.objects.values_list("code", "hits")) == {"9": 5, "8": 5, "7": 0}
    assert sum(counts(Page, "hits")) == 17
    device, _ = Device.objects.create(), Device.objects.create()
    assert of(Device).filter(pk=device.pk).increment(events=2) == 1
    assert Device.objects.get(pk=device.pk).events == 2


def test_slotted_fields_alone_and_beside_exact_ones(
    posts: list[Post], monkeypatch: pytest.MonkeyPatch
) -> None:
    del posts
    songs = [Song.objects.create(title=str(n)) for n in range(3)]
    assert Song.objects.exclude(title="0").increment(plays=2, skips=3, stars=1) == 2
    exact = Song.objects.with_counts().order_by("pk")
    assert list(exact.values_list("plays", "stars", "skips")) == [(0, 0, 0), (2, 1, 3), (2, 1, 3)]
    assert counts(Song, "plays", "skips") == [(0, 0), (0, 3), (0, 3)]
    monkeypatch.setattr(Song._meta.get_field("skips"), "bounds", Bounds(0))
    with pytest.raises(InsufficientCount, match=f"skips:{songs[0].pk}"):
        Song.objects.decrement(plays=1, skips=1)
    Song.objects.filter(pk=songs[2].pk).update(stars=INT8[1] - 1)
    with pytest.raises(CounterOverflow):
        Song.objects.increment(skips=1, stars=1)
    assert list(exact.values_list("plays", "skips")) == [(0, 0), (2, 3), (2, 3)]
    LiveTrack.objects.create()
    Release.objects.create(code="r")
    assert of(LiveTrack).increment(plays=1, shares=2, cheers=3) == 1
    assert Release.objects.increment(plays=4) == 1
    assert Track.objects.decrement(plays=1) == 2
    assert [track.plays for track in Track.objects.with_counts().order_by("pk")] == [0, 3]


@isolated_counters()
def test_cached_fields_are_counted_as_anywhere(posts: list[Post]) -> None:
    del posts
    articles = [Article.objects.create(title=str(n)) for n in range(3)]
    some = Article.objects.exclude(title="0")
    assert some.increment(reads=2, claps=1) == 2
    assert [article.reads.value() for article in articles] == [0, 2, 2]
    with transaction.atomic():
        assert some.increment(reads=3, shares=4) == 2
        assert articles[1].reads.value() == 2
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        some.increment(reads=100, shares=1)
        raise ZeroDivisionError
    assert articles[1].reads.value() == 5
    flush()
    assert counts(Article, "reads", "claps", "shares") == [(0, 0, 0), (5, 1, 4), (5, 1, 4)]


def test_a_redis_that_is_away(posts: list[Post], monkeypatch: pytest.MonkeyPatch) -> None:
    del posts
    Article.objects.create()
    field: Any = Article._meta.get_field("reads")
    away = field.recipe.but(cache="redis://127.0.0.1:1/0", on_redis_down="raise")
    monkeypatch.setitem(vars(field), "recipe", away)
    with pytest.raises(CounterUnavailable):
        Article.objects.increment(reads=1)
    with pytest.raises(OutcomeUnknown):
        Article.objects.increment(reads=1, shares=1)
    monkeypatch.setitem(vars(field), "recipe", away.but(on_redis_down="exact"))
    assert Article.objects.increment(reads=1, shares=1) == 1
    assert counts(Article, "reads", "shares") == [(1, 2)]


def test_whoever_listens_hears_of_each_field(posts: list[Post]) -> None:
    heard: list[Any] = []

    def hear(**told: Any) -> None:
        heard.append(told)

    Song.objects.create()
    batch_applied.connect(hear)
    try:
        Post.objects.filter(views__gt=1).decrement(views=2, likes=1)
        with pytest.raises(CounterOverflow):
            Post.objects.increment(views=INT8[1])
        Post.objects.filter(pk=0).increment(views=1)
        Song.objects.increment(plays=3, skips=4)
    finally:
        batch_applied.disconnect(hear)
    subjects = ["Post.views", "Post.likes", "Song.plays", "Song.skips"]
    assert [told["subject"] for told in heard] == [f"testapp.{name}" for name in subjects]
    assert [told["strategy"] for told in heard] == ["exact", "exact", "slotted", "exact"]
    changes = [[delta.by for delta in told["batch"].deltas] for told in heard]
    assert changes == [[-2, -2], [-1, -1], [3], [4]]
    assert heard[0]["values"] == {posts[2].pk: 0, posts[3].pk: 1}


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_async_twins_and_other_databases(posts: list[Post]) -> None:
    Post.objects.using("other").create(pk=posts[0].pk)

    async def calls() -> None:
        assert await Post.objects.using("other").aincrement(views=3, likes=2) == 1
        assert await Post.objects.filter(pk=posts[0].pk).adecrement(views=1) == 1

    async_to_sync(calls)()
    assert Post.objects.using("other").values_list("views", "likes").get() == (3, 2)
    assert counts(Post, "views") == [-1, 1, 2, 3]
