"""The API of the example: beacons of its pages, and passwords that are not guessed."""

from __future__ import annotations

import pytest
from django.test import Client

from example_project import api, seeds
from example_project.blog.models import Post
from tests.example.beacons import increment, send

pytestmark = pytest.mark.django_db
# A view is sent when the transaction commits.
commits = pytest.mark.django_db(transaction=True)


def counts(post: Post) -> tuple[int, int]:
    found = Post.objects.with_counts("views", "likes").get(pk=post.pk)
    return int(found.views), int(found.likes)


@commits
def test_a_page_of_this_site_counts_and_no_other(client: Client, post: Post) -> None:
    for field in ("likes", "views"):
        assert send(client, post, field).json()["value"] == 1
        for origin in ("", "null", "https://example.org", "http://localhost:9"):
            assert send(client, post, field, Origin=origin).status_code == 403
        assert client.generic("POST", increment(post, field)).status_code == 403
    assert counts(post) == (1, 1)


def test_passwords_are_not_guessed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.Guesses, "rate", "2/min")
    seeds.add_demo_users()
    wrong = {"username": "clerk", "password": "wrong"}
    tried = [client.post("/api/token/", wrong).status_code for _ in range(3)]
    assert tried == [401, 401, 429]
