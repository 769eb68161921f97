"""Somebody counts once, until he takes it back."""

from __future__ import annotations

import pytest
from django.db import transaction

from tests.likes.conftest import Likes


def test_once_and_back(likes: Likes) -> None:
    first, again, other = (likes.increment(who=who) for who in ("ann", "ann", "bob"))
    assert [(r.value, r.replayed) for r in (first, again, other)] == [
        (1, False),
        (1, True),
        (2, False),
    ]
    assert (likes.value(), likes.rows(), likes.has("ann"), likes.has("eve")) == (2, 2, True, False)
    gone, nothing = likes.decrement(who="ann"), likes.decrement(who="ann")
    assert [(r.value, r.replayed) for r in (gone, nothing)] == [(1, False), (1, True)]
    assert (likes.value(), likes.rows(), likes.has("ann"), likes.has("bob")) == (1, 1, False, True)
    assert (likes.increment(who="ann").value, likes.rows()) == (2, 2)


def test_toggle(likes: Likes) -> None:
    told = [
        (one.has, one.result.value) for one in (likes.toggle(7), likes.toggle("8"), likes.toggle(7))
    ]
    assert told == [(True, 1), (True, 2), (False, 1)]
    assert (likes.value(), likes.rows(), likes.has("7"), likes.has(8)) == (1, 1, False, True)


def test_what_is_rolled_back_leaves_neither(likes: Likes) -> None:
    likes.increment(who="ann")
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            likes.increment(who="bob")
            likes.decrement(who="ann")
            raise ZeroDivisionError
        assert likes.increment(who="eve").value == 2
    assert (likes.value(), likes.rows()) == (2, 2)
