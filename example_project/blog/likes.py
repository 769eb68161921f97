"""Likes: who somebody is, and what a page does when he likes a post or takes that back."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest

from django_counters import Result
from example_project.blog.models import Post
from example_project.visits import visitor_of


def liker(request: HttpRequest) -> AbstractUser | str:
    """Who asks: a user who is logged in, else a visitor, whom the API calls the same."""
    user = request.user
    return user if isinstance(user, AbstractUser) else f"visitor:{visitor_of(request)}"


def change(post: Post, who: AbstractUser | str, *, likes: bool) -> Result:
    """Let somebody like a post, or not any more.

    Whoever asks twice, as after a lost answer, is counted once: the result says so.
    """
    return post.likes.increment(who=who) if likes else post.likes.decrement(who=who)
