"""The blog: a page that is seen is one view, a button is one like, a file is one download."""

from __future__ import annotations

import re
from collections import Counter as Sums
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import IntegrityError
from django.test import Client

from django_counters import OutcomeUnknown
from django_counters.models import Counter, CounterDelta, CounterShard, SlottedCounter
from django_counters.testing import override_counters
from django_counters.upkeep.flush import flush
from django_counters.upkeep.rollup import rollup
from example_project.blog.downloads import register
from example_project.blog.models import Download, Post
from example_project.flow import Meter, measuring
from example_project.live.views import CACHE_KEY
from example_project.settings import COUNTERS
from example_project.tally import COUNTED_HEADER, UNKNOWN
from tests.example.beacons import see, send

# Views are sent to Redis when the transaction commits, so there must be none around the test.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _as_the_example_declares_it() -> Iterator[None]:
    with override_counters(**COUNTERS):
        yield


@pytest.fixture
def post() -> Post:
    return Post.objects.create(title="Count last", slug="count-last", body="Others wait.")


def views(post: Post) -> int:
    return int(Post.objects.with_counts("views").get(pk=post.pk).views)


def test_a_get_counts_nothing_and_shows_the_views(client: Client, post: Post) -> None:
    assert "0 views<" in client.get(post.get_absolute_url()).content.decode()
    assert "0 views<" in client.get(post.get_absolute_url()).content.decode()
    see(client, post)
    assert "1 view<" in client.get(post.get_absolute_url()).content.decode()
    assert views(post) == 1


def test_a_view_waits_in_redis_and_lands_once(client: Client, post: Post) -> None:
    see(client, post)
    see(client, post)
    assert Post.objects.values_list("views").get() == (0,)
    assert post.views.read().pending == 2
    assert flush().counters == 1
    assert flush().counters == 0
    assert Post.objects.values_list("views").get() == (2,)
    see(client, post)
    assert "3 views<" in client.get(post.get_absolute_url()).content.decode()


def test_without_redis_pages_are_shown_and_beacons_are_turned_away(
    client: Client, post: Post, no_redis: None
) -> None:
    assert "0 views<" in client.get(post.get_absolute_url()).content.decode()
    refused = send(client, post, "views")
    assert (refused.status_code, refused["Retry-After"]) == (503, "1")
    assert Post.objects.values_list("views").get() == (0,)
    assert "0 views<" in client.get("/blog/").content.decode()
    # The form needs no limit, for it has a token.
    like(client, post)


def test_without_redis_a_visit_goes_into_the_ledger_and_pages_are_shown(
    client: Client, post: Post, no_redis: None
) -> None:
    for path in ("/blog/", "/live/", "/shop/", "/live/counts.json"):
        assert client.get(path).status_code == 200
    assert CounterDelta.objects.filter(key="visits:blog").count() == 1
    fragments = client.get("/live/counts.json").json()["fragments"]
    assert fragments["flow"] == "in Redis ? · in PostgreSQL 3"


@pytest.mark.parametrize("path", ["/blog/", "/live/", "/shop/"])
def test_a_page_whose_view_is_uncertain_is_shown_and_says_so(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise OutcomeUnknown(using="default")

    monkeypatch.setattr("django_counters.stores.redis.pending.RedisPending.send", lost)
    monkeypatch.setattr("django_counters.querysets.CounterField.load", lambda *_: None)
    monkeypatch.setattr("example_project.live.views.named_counters", lambda *_, **__: {})
    monkeypatch.setattr("example_project.live.views.present", lambda: "")
    answer = client.get(path)
    assert (answer.status_code, answer.headers[COUNTED_HEADER]) == (200, UNKNOWN)


def test_the_live_page_shows_how_far_the_views_have_come(client: Client, post: Post) -> None:
    told: Sums[str] = Sums()
    with measuring(Meter(lambda: told)):
        see(client, post)
        client.get("/blog/")
        told.update([f"blog.Post.views:{post.pk}", "visits:blog"])
        shown = "written 2 · in Redis 2 · in PostgreSQL 0 · lost 0"
        assert shown in client.get("/live/").content.decode()
        flush()
        told.update(["visits:live", "unknown:visits:blog"])
        fragments = client.get("/live/counts.json").json()["fragments"]
    landed = "written 3 · in Redis 0 · in PostgreSQL 3 · lost 0 · unknown 1"
    assert fragments["flow"] == landed


def test_what_was_answered_and_is_nowhere_is_lost(post: Post) -> None:
    told = Sums({"visits:blog": 3})
    meter = Meter(lambda: told)
    Counter.objects.increment("visits:blog")
    assert (meter.read().waiting, meter.read().lost) == (1, 2)


def test_a_head_counts_nothing(client: Client, post: Post) -> None:
    assert client.head(post.get_absolute_url()).status_code == 200
    assert views(post) == 0


def test_a_post_request_counts_nothing(client: Client, post: Post) -> None:
    assert client.post(post.get_absolute_url()).status_code == 405
    assert views(post) == 0


def test_other_posts_are_left_alone(client: Client, post: Post) -> None:
    other = Post.objects.create(title="Other", slug="other", body="")
    see(client, post)
    assert views(other) == 0


def test_an_unknown_post_is_not_found(client: Client) -> None:
    assert client.get("/blog/999999/").status_code == 404


def test_the_list_counts_a_visit(client: Client, post: Post) -> None:
    assert "Count last" in client.get("/blog/").content.decode()
    assert Counter.objects.value("visits:blog") == 1


def test_the_live_page_and_its_numbers(client: Client, post: Post) -> None:
    cache.delete(CACHE_KEY)
    see(client, post)
    assert "Count last" in client.get("/live/").content.decode()
    like(client, post)
    like(client, post)
    client.get(f"/blog/{post.pk}/download")
    rows = client.get("/live/counts.json").json()["tables"]["posts"]
    assert {"id": f"post-{post.pk}", "name": "Count last", "numbers": [1, 2, 1]} in rows


def like(client: Client, post: Post) -> None:
    assert client.post(f"/blog/{post.pk}/like").status_code == 302


def shown(client: Client, path: str) -> list[str]:
    """The lines of a page that say a number of something."""
    return re.findall(r"<span[^>]*>(\d[^<]*)</span>", client.get(path).content.decode())


def test_a_like_waits_in_a_slot_and_is_shown_at_once(client: Client, post: Post) -> None:
    like(client, post)
    assert "1 like" in shown(client, post.get_absolute_url())
    assert Post.objects.values_list("likes").get() == (0,)
    assert SlottedCounter.objects.values_list("name", "count").get() == ("likes", 1)
    rollup()
    assert Post.objects.values_list("likes").get() == (1,)
    assert "1 like" in shown(client, post.get_absolute_url())


def test_a_like_leads_back_to_the_post(client: Client, post: Post) -> None:
    answer = client.post(f"/blog/{post.pk}/like", follow=True)
    assert answer.redirect_chain == [(post.get_absolute_url(), 302)]


def test_a_like_needs_the_token_of_the_page(post: Post) -> None:
    browser = Client(enforce_csrf_checks=True)
    assert browser.post(f"/blog/{post.pk}/like").status_code == 403
    browser.get(post.get_absolute_url())
    form = {"csrfmiddlewaretoken": browser.cookies["csrftoken"].value}
    assert browser.post(f"/blog/{post.pk}/like", form).status_code == 302
    assert Post.objects.with_counts("likes").get().likes == 1


def test_a_get_likes_nothing(client: Client, post: Post) -> None:
    assert client.get(f"/blog/{post.pk}/like").status_code == 405
    assert client.post("/blog/999999/like").status_code == 404
    assert not SlottedCounter.objects.exists()


def test_the_most_liked_post_comes_first_before_any_rollup(client: Client, post: Post) -> None:
    Post.objects.create(title="Other", slug="other", body="")
    liked = Post.objects.create(title="Liked", slug="liked", body="")
    like(client, post)
    rollup()
    like(client, liked)
    like(client, liked)
    listed = client.get("/blog/").context["rows"]
    assert [(row.title, int(row.likes)) for row, _ in listed] == [
        ("Liked", 2),
        ("Count last", 1),
        ("Other", 0),
    ]


def test_a_download_is_the_text_and_waits_in_a_shard(client: Client, post: Post) -> None:
    answer = client.get(f"/blog/{post.pk}/download")
    assert answer.content.decode() == post.body
    assert answer.headers["Content-Disposition"] == 'attachment; filename="count-last.txt"'
    assert "1 download" in shown(client, post.get_absolute_url())
    assert CounterShard.objects.values_list("key", "value").get() == (
        f"downloads:post-{post.pk}",
        1,
    )
    rollup()
    assert not CounterShard.objects.exists()
    assert "1 download" in shown(client, post.get_absolute_url())


def test_a_head_downloads_nothing(client: Client, post: Post) -> None:
    assert client.head(f"/blog/{post.pk}/download").status_code == 200
    assert "0 downloads" in shown(client, post.get_absolute_url())


def test_a_download_that_is_not_entered_is_not_counted(post: Post) -> None:
    register(post)
    gone = Post.objects.get(pk=post.pk)
    post.delete()
    with pytest.raises(IntegrityError):
        register(gone)
    assert Counter.objects.value(f"downloads:post-{gone.pk}") == 1
    assert Download.objects.count() == 0


@pytest.mark.parametrize("posts", [1, 5])
def test_the_list_takes_as_many_queries_however_long(
    client: Client, posts: int, django_assert_num_queries: Any
) -> None:
    for number in range(posts):
        Post.objects.create(title=f"Post {number}", slug=f"post-{number}", body="")
    client.get("/blog/")
    with django_assert_num_queries(2):  # posts with likes, and downloads; Redis knows the rest
        client.get("/blog/")


def test_the_admin_shows_exact_likes(admin_client: Client, post: Post) -> None:
    like(admin_client, post)
    page = admin_client.get("/admin/blog/post/").content.decode()
    assert '<td class="field-likes">1</td>' in page
    form = {"title": "New", "slug": "new", "body": "x", "likes": "7", "views": "7"}
    saved = admin_client.post(f"/admin/blog/post/{post.pk}/change/", form)
    assert saved.status_code == 302
    found = Post.objects.with_counts().get()
    assert (found.title, found.likes, found.views) == ("New", 1, 0)
