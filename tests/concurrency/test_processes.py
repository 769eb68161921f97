"""Processes that count the same rows: nothing is lost, nothing is doubled, nobody deadlocks."""

from __future__ import annotations

import pytest

from django_counters.models import Counter
from django_counters.testing import assert_counts
from tests.concurrency import work
from tests.concurrency.crowd import processes
from tests.testapp.models import Post

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]


def test_one_key() -> None:
    processes(8, work.increment_one, 250)
    assert_counts({"hot": 8 * 250})


def test_new_keys_carts_and_querysets() -> None:
    """All ways to lock several rows take them in the same order, rows that are new included."""
    crowd, rounds = 8, 15
    processes(crowd, work.create_and_change, rounds)
    for turn in range(rounds):
        keys = [f"stock:{turn}:{n}" for n in range(6)]
        total = sum(Counter.objects.values_of(keys).values())
        # Two into each of six, one out of four, and three times one into each of six.
        assert total == crowd * (12 - 4 + 18)


def test_saving_a_row_never_overwrites_its_counter() -> None:
    post = Post.objects.create()
    processes(8, work.view_and_save, post.pk, 50)
    assert Post.objects.get().views == 8 * 50
    assert Post.objects.get().likes == 8 * 10
