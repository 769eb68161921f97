"""The blog: one GET of a post is one view."""

from __future__ import annotations

import pytest
from django.test import Client

from django_counters.models import Counter
from example_project.blog.models import Post

pytestmark = pytest.mark.django_db


@pytest.fixture
def post() -> Post:
    return Post.objects.create(title="Count last", slug="count-last", body="Others wait.")


def views(post: Post) -> int:
    return int(Post.objects.get(pk=post.pk).views)


def test_a_get_counts_one_view_and_shows_it(client: Client, post: Post) -> None:
    assert "1 view<" in client.get(post.get_absolute_url()).content.decode()
    assert "2 views<" in client.get(post.get_absolute_url()).content.decode()
    assert views(post) == 2


def test_a_head_counts_nothing(client: Client, post: Post) -> None:
    assert client.head(post.get_absolute_url()).status_code == 200
    assert views(post) == 0


def test_a_post_request_counts_nothing(client: Client, post: Post) -> None:
    assert client.post(post.get_absolute_url()).status_code == 405
    assert views(post) == 0


def test_other_posts_are_left_alone(client: Client, post: Post) -> None:
    other = Post.objects.create(title="Other", slug="other", body="")
    client.get(post.get_absolute_url())
    assert views(other) == 0


def test_an_unknown_post_is_not_found(client: Client) -> None:
    assert client.get("/blog/999999/").status_code == 404


def test_the_list_counts_a_visit(client: Client, post: Post) -> None:
    assert "Count last" in client.get("/blog/").content.decode()
    assert Counter.objects.value("visits:blog") == 1


def test_the_live_page_and_its_numbers(client: Client, post: Post) -> None:
    client.get(post.get_absolute_url())
    assert "Count last" in client.get("/live/").content.decode()
    rows = client.get("/live/counts.json").json()["tables"]["views"]
    assert {"id": f"views-{post.pk}", "name": "Count last", "numbers": [1]} in rows
