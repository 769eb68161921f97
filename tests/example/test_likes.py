"""Likes of the blog: of each person one, whichever way it comes, and how the edge notes them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import Client

from django_counters import InvalidActor, InvalidAdjustment
from django_counters.contrib.likes.liking import actors
from django_counters.upkeep import verify
from example_project.blog.models import Post
from example_project.people import VISITOR_COOKIE
from example_project.tally import LIKED_HEADER, Tally, Watched
from tests.example.conftest import ORIGIN

pytestmark = pytest.mark.django_db(transaction=True)
JSON = "application/json"


@pytest.fixture
def post() -> Post:
    return Post.objects.create(title="A", slug="a", body="b")


def press(client: Client, post: Post, button: str) -> tuple[int, str]:
    """The status, and by how much the likes have changed."""
    answer = client.post(f"/blog/{post.pk}/like", {"like": button})
    return answer.status_code, answer.headers.get(LIKED_HEADER, "")


def over_the_api(client: Client, post: Post, way: str, **body: str) -> Any:
    url = f"/api/v1/counters/blog.Post.likes:{post.pk}/{way}"
    return client.post(url, body, JSON, headers={"Origin": ORIGIN})


def likes(post: Post) -> tuple[int, int]:
    """The number, and how many people are behind it."""
    assert verify(namespace="blog.Post.likes").drifts == []
    return Post.likes.of(post.pk).value(), len(actors(post.likes, limit=100))


def test_the_button_likes_and_takes_back_once_for_each_visitor(post: Post) -> None:
    first, second = Client(), Client()
    assert ">Like<" in first.get(post.get_absolute_url()).content.decode()
    assert first.cookies[VISITOR_COOKIE]["httponly"]
    assert [press(first, post, "yes") for _ in range(2)] == [(302, "1"), (302, "0")]
    assert press(second, post, "yes") == (302, "1")
    assert likes(post) == (2, 2)
    page = first.get(post.get_absolute_url()).content.decode()
    assert 'value="no"' in page
    assert ">Take back<" in page
    assert ">Like<" in Client().get(post.get_absolute_url()).content.decode()
    assert [press(first, post, "no") for _ in range(2)] == [(302, "-1"), (302, "0")]
    assert likes(post) == (1, 1)


def test_a_script_is_told_in_json(client: Client, post: Post) -> None:
    url, headers = f"/blog/{post.pk}/like", {"Accept": JSON}
    assert client.post(url, {"like": "yes"}, headers=headers).json() == {"liked": True, "value": 1}
    assert client.post(url, {"like": "no"}, headers=headers).json() == {"liked": False, "value": 0}


def test_a_visitor_and_a_user_are_the_same_over_the_api(client: Client, post: Post) -> None:
    client.get(post.get_absolute_url())
    who = client.cookies[VISITOR_COOKIE].value
    assert not over_the_api(client, post, "increment", who=who).json()["replayed"]
    assert press(client, post, "yes") == (302, "0")
    client.force_login(User.objects.create_user("ann"))
    assert press(client, post, "yes") == (302, "1")
    assert over_the_api(client, post, "increment").json()["replayed"]
    assert likes(post) == (2, 2)
    assert over_the_api(client, post, "decrement").json()["value"] == 1
    assert press(client, post, "no") == (302, "0")


@pytest.mark.parametrize("cookie", ["", "7", "x" * 100, "A" * 32])
def test_a_cookie_that_is_none_of_ours_is_replaced(client: Client, post: Post, cookie: str) -> None:
    client.cookies[VISITOR_COOKIE] = cookie
    assert press(client, post, "yes") == (302, "1")
    assert client.cookies[VISITOR_COOKIE].value != cookie
    assert press(client, post, "yes") == (302, "0")


def test_what_is_not_asked_rightly_counts_nothing(client: Client, post: Post) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert press(strict, post, "yes")[0] == 403
    assert press(client, post, "toggle")[0] == 400
    assert client.get(f"/blog/{post.pk}/like").status_code == 405
    assert over_the_api(client, post, "increment").status_code == 400
    assert over_the_api(client, post, "decrement", who="x").status_code in (401, 403)
    with pytest.raises(InvalidActor):
        post.likes.increment()
    with pytest.raises(InvalidAdjustment):
        post.likes.adjust(by=1, reason="A test", actor="clerk")
    assert likes(post) == (0, 0)


def test_the_edge_notes_what_people_do(client: Client, post: Post) -> None:
    tally = Tally()

    def ask(path: str, body: bytes = b"", status: str = "200 OK", **headers: str) -> None:
        def application(_: Any, start: Any) -> list[bytes]:
            start(status, [(LIKED_HEADER, by) for by in headers.values()])
            return [body]

        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": path}
        list(Watched(application, tally)(environ, lambda *_: None))

    counter = f"blog.Post.likes:{post.pk}"
    for by, total in (("1", 1), ("0", 1), ("1", 2), ("-1", 1)):
        ask(f"/blog/{post.pk}/like", status="302 Found", likes=by)
        assert tally.sums()[counter] == total
    ask(f"/api/v1/counters/{counter}/decrement", b"{}", "504 Gateway Timeout")
    assert (tally.sums()[counter], tally.sums()[f"unknown:{counter}"]) == (0, 1)


def test_likes_of_which_nobody_knows_whose_they_were_are_forgotten(post: Post) -> None:
    executor = MigrationExecutor(connection)
    before = [("blog", "0006_top_of_the_week")]
    try:
        old = executor.migrate(before).apps.get_model("blog", "Post")
        old._base_manager.filter(pk=post.pk).update(likes=3)
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    assert likes(post) == (0, 0)
