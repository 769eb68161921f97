"""The API behind sockets, for clients of another process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer
from rest_framework_simplejwt.tokens import AccessToken

from django_counters.rest import expose
from django_counters.testing import override_counters
from tests.rest.conftest import NAMED, NAMESPACES, OPEN
from tests.testapp.models import Article, Post, Song

# A schema cannot say how much a namespace admits: as much as there are numbers.
_ANY = {"max_delta": 2**63 - 1}
_OPEN: dict[str, Any] = {**OPEN, **_ANY}


@contextmanager
def served() -> Iterator[str]:
    """A server with threads that knows the namespaces of the tests; where it is."""
    namespaces: dict[str, Any] = {
        name: {**policy, "API": {**policy["API"], **_ANY}}
        for name, policy in NAMESPACES.items()
        if "API" in policy
    }
    with override_counters(**namespaces):
        server = LiveServer("127.0.0.1")
        try:
            yield str(server.url)
        finally:
            server.stop()


def keys_in_rows() -> list[str]:
    """Counters that one transaction can change together."""
    expose(Post, "likes", **_OPEN)
    expose(Song, "plays", **_OPEN)
    named = [key for strategy, key in NAMED.items() if strategy != "cached"]
    post, song = Post.objects.create(), Song.objects.create()
    records = [f"testapp.Post.likes:{post.pk}", f"testapp.Song.plays:{song.pk}"]
    return [*named, *records, "stock:a/b", "likes:\N{GREEK SMALL LETTER OMEGA}", "hits:a"]


def keys_in_redis() -> list[str]:
    """Counters that are cached."""
    expose(Article, "reads", **_OPEN)
    return [NAMED["cached"], f"testapp.Article.reads:{Article.objects.create().pk}"]


def authorization() -> str:
    """The header of somebody who may do everything."""
    token = AccessToken.for_user(User.objects.create_superuser("anna"))
    token.set_exp(lifetime=timedelta(hours=2))
    return f"Bearer {token}"
