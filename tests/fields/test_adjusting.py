"""Adjustments of records: what the instance holds, and which database is meant."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_counters.adjustments.adjustment import preview
from django_counters.errors import (
    CeilingExceeded,
    InsufficientCount,
    RecordMissing,
    UnsavedInstance,
    ValueChanged,
)
from django_counters.models import (
    Counter,
    CounterAdjustment,
    SlottedCounter,
)
from django_counters.write.records import of_record
from tests.adjustments.adjustables import (
    WHO,
    assert_sound,
    parts,
)
from tests.testapp.models import Article, Post, Product

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
adjust = Counter.objects.adjust


class TestRecord:
    def test_of_a_field(self) -> None:
        product = Product._base_manager.create(stock=5)
        with pytest.raises(InsufficientCount):
            product.stock.adjust(to=-1, **WHO)
        with pytest.raises(CeilingExceeded):
            product.stock.adjust(to=1001, **WHO)
        assert product.stock == 5
        assert product.stock.adjust(to=1000, **WHO).after == 1000

    @pytest.mark.parametrize("make", [Post, Article])
    def test_it_is_what_the_instance_holds(self, make: Any) -> None:
        name = "likes" if make is Post else "reads"
        record = make.objects.create()
        getattr(record, name).increment(5)
        row = getattr(record, name).adjust(to=9, token="t-1", **WHO)
        assert (parts(row), getattr(record, name)) == ((5, 9, 4), 9)
        getattr(record, name).increment()
        assert getattr(record, name).adjust(to=9, token="t-1", **WHO).replayed
        # What the first one has left is not what there is now.
        assert getattr(record, name) == 10

    def test_a_refused_one_leaves_the_instance_alone(self) -> None:
        post = Post.objects.create()
        Post.objects.get().likes.increment(3)
        with pytest.raises(ValueChanged):
            post.likes.adjust(to=9, expected=0, **WHO)
        assert post.likes == 0

    def test_no_row(self) -> None:
        post = Post(pk=7)
        with pytest.raises(UnsavedInstance):
            post.likes.adjust(to=1, **WHO)
        post = Post.objects.create()
        Post.objects.all().delete()
        for adjust_it in (post.likes.adjust, preview_of(post)):
            with pytest.raises(RecordMissing):
                adjust_it(to=1, **WHO)
        assert not CounterAdjustment.objects.exists()

    def test_asynchronous_code(self) -> None:
        async def work(post: Post) -> list[int]:
            first = await post.likes.aadjust(to=5, **WHO)
            second = await SlottedCounter.objects.aadjust(post, "likes", by=1, **WHO)
            third = await Post.objects.aadjust_many("likes", by={post.pk: 1}, case="c", **WHO)
            return [first.after, second.after, third.changes[0].after]

        assert async_to_sync(work)(Post.objects.create()) == [5, 6, 7]
        assert_sound()

    def test_a_caller_cannot_say_what_was_seen_last(self) -> None:
        post = Post.objects.create()
        for adjust_it in (
            partial(post.likes.adjust, by=1),
            partial(post.likes.adjust, to=1),
            partial(SlottedCounter.objects.adjust, post, "likes", by=1),
        ):
            for last in (0, None):
                with pytest.raises(TypeError, match="'last'"):
                    adjust_it(expected=77, last=last, **WHO)
        assert not CounterAdjustment.objects.exists()

    def test_templates_do_not_adjust(self) -> None:
        assert Post.objects.create().likes.adjust.alters_data  # type: ignore[attr-defined]
        assert Counter.objects.adjust.alters_data  # type: ignore[attr-defined]
        assert Counter.objects.aadjust.alters_data  # type: ignore[attr-defined]
        assert Post.objects.aadjust_many.alters_data  # type: ignore[attr-defined]


def preview_of(post: Post) -> Any:
    return lambda to, **_: preview(of_record(post, "likes"), to=to)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
class TestDatabases:
    def test_using_chooses(self) -> None:
        Counter.objects.increment("a", 5, using="other")
        row = adjust("a", to=7, using="other", **WHO)
        assert parts(row) == (5, 7, 2)
        assert Counter.objects.db_manager("other").adjust("a", by=1, **WHO).number == 2
        assert (Counter.objects.value("a"), Counter.objects.value("a", using="other")) == (0, 8)
        assert not CounterAdjustment.objects.exists()
        assert_sound("other")

    def test_the_router_decides(self, settings: Any) -> None:
        settings.DATABASE_ROUTERS = [Elsewhere()]
        adjust("a", to=7, **WHO)
        assert Counter.objects.value("a", using="default") == 0
        assert CounterAdjustment.objects.using("other").count() == 1
        assert not CounterAdjustment.objects.using("default").exists()

    @pytest.mark.parametrize("name", ["likes", "downloads"])
    def test_a_record_is_adjusted_where_it_counts(self, name: str) -> None:
        """A record of another database, and one here that has the same key."""
        Post.objects.create(pk=1)
        there = Post.objects.using("other").create(pk=1)
        SlottedCounter.objects.increment(there, name, 5)
        assert parts(SlottedCounter.objects.adjust(there, name, to=7, **WHO)) == (5, 7, 2)
        if name == "likes":
            assert parts(there.likes.adjust(to=9, **WHO)) == (7, 9, 2)
        here = Post.objects.get(pk=1)
        assert SlottedCounter.objects.value(here, name) == 0
        assert not CounterAdjustment.objects.exists()
        assert_sound("other")


class Elsewhere:
    """A router that sends everything to the other database."""

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "other"

    db_for_read = db_for_write
