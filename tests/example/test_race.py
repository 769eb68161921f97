"""The same views in a plain column and in a counter: what each loses, and that it adds up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connections
from django.db.models.signals import ModelSignal, post_init, post_save, pre_save
from django.dispatch import Signal
from django.test import Client
from django.urls import reverse

from django_counters import CounterUnavailable
from django_counters.cached.flush import flush
from django_counters.signals import batch_applied
from example_project import race as of_the_race
from example_project.blog.models import Post
from example_project.flow import Flow
from example_project.live.views import CACHE_KEY
from example_project.race import Race, Standing, racing
from example_project.tally import VIEWS, unknown
from tests.admin.reading import rows_of

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 30


@pytest.fixture
def post() -> Post:
    return Post.objects.create(title="A", slug="a", body="b")


@pytest.fixture
def race(post: Post) -> Iterator[Race]:
    with racing(Race()) as race:
        yield race


def see(post: Post) -> None:
    try:
        assert Client().post(reverse("view", args=[post.pk])).status_code == 200
    finally:
        connections.close_all()


@contextmanager
def both_have_read(readers: int) -> Iterator[None]:
    """Nobody writes the column before so many have read it: the read of ``count_naively``."""
    meet, last = threading.Barrier(readers), threading.local()

    def wait(instance: Post, **_: Any) -> None:
        # The page reads the post first, then the race does.
        last.reads = getattr(last, "reads", 0) + 1
        if last.reads == 2:
            meet.wait(PATIENCE)

    post_init.connect(wait, sender=Post)
    try:
        yield
    finally:
        post_init.disconnect(wait, sender=Post)


def assert_adds_up(standing: Standing) -> None:
    for one in standing:
        before = (one.written, one.in_flight, one.unknown)
        after = (one.waiting, one.landed, one.lost, one.not_counted)
        assert sum(number or 0 for number in before) == sum(number or 0 for number in after)


@pytest.mark.many_writers
def test_two_requests_at_once_lose_a_view_in_the_column_and_none_of_ours(
    post: Post, race: Race
) -> None:
    see(post)
    with both_have_read(2), ThreadPoolExecutor(2) as pool:
        list(pool.map(see, [post, post]))
    found = race.read()
    assert (found.naive, found.naive.lost) == (Flow(3, 0, 2), 1)
    assert (found.ours, found.ours.lost) == (Flow(3, 3, 0), 0)
    assert_adds_up(found)
    flush()
    assert race.read().ours == Flow(3, 0, 3)
    assert str(race.read()) == "naive: 1 lost · ours: 0 lost"


def test_one_after_the_other_loses_nothing(post: Post, race: Race) -> None:
    for _ in range(3):
        see(post)
    assert [flow.lost for flow in race.read()] == [0, 0]
    assert [flow.written for flow in race.read()] == [3, 3]


def test_what_was_there_before_is_no_part_of_it(post: Post) -> None:
    see(post)
    flush()
    with racing(Race()) as race:
        assert race.read() == (Flow(0, 0, 0), Flow(0, 0, 0))


def test_what_is_counted_elsewhere_and_adjusted_is_written_too(post: Post, race: Race) -> None:
    post.views.increment(5)
    flush()
    Post.objects.adjust_many("views", by={post.pk: -2}, reason="Tests", actor="anna", case="1")
    found = race.read()
    assert (found.ours, found.naive) == (Flow(3, 0, 3), Flow(0, 0, 0))


def test_what_redis_has_lost_is_shown(post: Post, race: Race) -> None:
    see(post)
    flush()
    Post.objects.filter(pk=post.pk).update(views=0)
    assert race.read().ours.lost == 1
    assert_adds_up(race.read())


@contextmanager
def read_at(signal: ModelSignal | Signal, race: Race) -> Iterator[list[Standing]]:
    """What is read whenever this signal is sent."""
    found: list[Standing] = []

    def read(**_: Any) -> None:
        found.append(race.read())

    signal.connect(read)
    try:
        yield found
    finally:
        signal.disconnect(read)


@pytest.mark.parametrize(("moment", "not_counted"), [(pre_save, 1), (post_save, 0)])
def test_what_the_column_is_told_at_this_moment_is_in_flight(
    post: Post, race: Race, moment: ModelSignal, not_counted: int
) -> None:
    with read_at(moment, race) as found:
        see(post)
    # The column is written last.
    (naive, _) = found[-1]
    assert (naive.in_flight, naive.lost, naive.not_counted) == (1, 0, not_counted)
    assert_adds_up(found[-1])
    assert (race.read().naive.in_flight, race.read().naive.not_counted) == (0, 0)


def test_what_our_counter_is_told_at_this_moment_is_in_flight(post: Post) -> None:
    race = Race()
    # This one hears of it before the race does.
    with read_at(batch_applied, race) as found, racing(race):
        see(post)
    assert [(one.ours.written, one.ours.in_flight, one.ours.waiting) for one in found] == [
        (0, 1, 1)
    ]
    assert_adds_up(found[0])
    assert race.read().ours == Flow(1, 1, 0)


def test_of_what_nobody_knows_it_is_shown_how_much_is_nowhere(post: Post) -> None:
    with racing(Race(lambda: {unknown(f"{VIEWS}:{post.pk}"): 3})) as race:
        see(post)
        # Two of the three are counted.
        Post.objects.filter(pk=post.pk).update(views=2)
        ours = race.read().ours
    assert (ours.in_flight, ours.unknown, ours.lost, ours.not_counted) == (0, 3, 0, 1)


def test_without_redis_nobody_says_that_nothing_is_lost(
    post: Post, race: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    see(post)

    def away() -> int:
        raise CounterUnavailable

    monkeypatch.setattr(of_the_race, "exact_views", away)
    assert str(race.read()) == "naive: 0 lost · ours: ? lost"


@pytest.mark.parametrize("page", ["home", "live"])
def test_the_pages_show_it_side_by_side(client: Client, post: Post, race: Race, page: str) -> None:
    see(post)
    Post.objects.filter(pk=post.pk).update(naive_views=0)
    found = client.get(reverse(page)).content.decode()
    cache.delete(CACHE_KEY)
    fragment = client.get(reverse("live-counts")).json()["fragments"]["race"]
    assert fragment in found
    assert rows_of(fragment)[1:] == [
        ["Written", "1", "1"],
        ["+ in flight", "0", "0"],
        ["+ unknown", "0", "0"],
        ["= in Redis", "0", "1"],
        ["+ in the database", "0", "0"],
        ["+ lost", "1", "0"],
        ["+ not counted", "0", "0"],
    ]


def test_where_nobody_compares_the_page_says_so(client: Client) -> None:
    assert "Nobody compares here" in client.get(reverse("home")).content.decode()
