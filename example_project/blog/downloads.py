"""Named counters: how often each post was downloaded."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction

from django_counters.models import Counter
from example_project.blog.models import Download, Post


def key_of(post: Post) -> str:
    """The key of its counter; the settings say that ``downloads`` are sharded."""
    return f"downloads:post-{post.pk}"


def register(post: Post) -> None:
    """Enter one download and count it, both or neither; nobody waits for this transaction."""
    with transaction.atomic():
        Counter.objects.increment(key_of(post))
        Download.objects.create(post=post)


def downloads_of(posts: Iterable[Post]) -> list[tuple[Post, int]]:
    """Posts and how often each was downloaded, in one query."""
    listed = list(posts)
    values = Counter.objects.values_of([key_of(post) for post in listed])
    return [(post, values[key_of(post)]) for post in listed]
