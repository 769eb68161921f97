"""``with_counts``: filters by numbers that have more than 32 bits, and more than 64."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F, Value

from tests.testapp.models import Post, Song

pytestmark = pytest.mark.django_db
INT4, INT8 = 2**31, 2**63


@pytest.mark.parametrize("total", [-5 * 10**9, -INT8, 5 * 10**9, INT8 - 1])
def test_a_value_is_compared_with_any_number(total: int) -> None:
    """The comparisons of Python are those of the database, with a part in a slot, too."""
    exact = Post.objects.create(likes=total)
    sign = 1 if total > 0 else -1
    spread = Song.objects.create(plays=total - sign)
    spread.plays.increment(sign)
    sides = (
        0,
        total - 1,
        total,
        total + 1,
        INT4,
        -INT4 - 1,
        INT8 - 1,
        -INT8,
        INT8,
        10**30,
        -(10**30),
    )
    for rows, name, record in (
        (Post.objects.with_counts("likes"), "likes", exact),
        (Song.objects.with_counts("plays"), "plays", spread),
    ):
        for side in sides:
            expected: dict[str, Any] = {
                "": total == side,
                "__gt": total > side,
                "__gte": total >= side,
                "__lt": total < side,
                "__lte": total <= side,
            }
            for lookup, holds in expected.items():
                condition = {f"{name}{lookup}": side}
                assert rows.filter(**condition).exists() == holds, condition
                assert rows.exclude(**condition).exists() != holds, condition
        assert rows.filter(**{f"{name}__range": (total, total)}).get() == record
        assert rows.filter(**{f"{name}__in": [1, total]}).get() == record
        assert rows.filter(**{f"{name}": Value(total)}).get() == record
        assert getattr(rows.get(), name) == rows.values_list(name, flat=True).get() == total


def test_large_values_are_ordered() -> None:
    titles = {"a": 5 * 10**9, "b": -5 * 10**9, "c": 4 * 10**9, "d": 7}
    for title, plays in titles.items():
        Song.objects.create(title=title).plays.increment(plays)
    rows = Song.objects.with_counts("plays")
    assert [song.title for song in rows.order_by("-plays")] == ["a", "c", "d", "b"]
    assert [song.title for song in rows.filter(plays__gt=4_000_000_000)] == ["a"]
    assert rows.filter(plays__gt=F("skips"), plays__lt=INT8).count() == 3
