"""The blog: a page that is seen is one view, a button is one like, a file is one download."""

from __future__ import annotations

import pytest
from django.test import Client

from django_counters.models import CounterDelta
from example_project.blog.models import Post
from tests.example.beacons import send

# Views are sent to Redis when the transaction commits, so there must be none around these tests.
pytestmark = pytest.mark.django_db(transaction=True)


def test_without_redis_pages_are_shown_and_beacons_are_turned_away(
    client: Client, post: Post, no_redis: None
) -> None:
    assert "0 views<" in client.get(post.get_absolute_url()).content.decode()
    refused = send(client, post, "views")
    assert (refused.status_code, refused["Retry-After"]) == (503, "1")
    assert Post.objects.values_list("views").get() == (0,)
    assert "0 views<" in client.get("/blog/").content.decode()
    # The form needs no limit, for it has a token.
    assert client.post(f"/blog/{post.pk}/like").status_code == 302
    for path in ("/live/", "/shop/", "/live/counts.json"):
        assert client.get(path).status_code == 200
    assert CounterDelta.objects.filter(key="visits:blog").count() == 1
    fragments = client.get("/live/counts.json").json()["fragments"]
    assert fragments["flow"] == "in Redis ? · in PostgreSQL 3"
