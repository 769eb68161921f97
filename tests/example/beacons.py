"""What the script of a page sends to the API."""

from __future__ import annotations

from typing import Any

from django.test import Client

from example_project.blog.models import Post

# One of the sites that the URLs name.
ORIGIN = "http://localhost:8000"


def increment(post: Post, field: str) -> str:
    """Where a field of a post is counted."""
    return f"/api/v1/counters/blog.Post.{field}:{post.pk}/increment"


def send(client: Client, post: Post, field: str, **headers: str) -> Any:
    """Count one, as a page of the site does."""
    given = {"Origin": ORIGIN} | {name.replace("_", "-"): text for name, text in headers.items()}
    return client.generic("POST", increment(post, field), headers=given)
