"""Many counters adjusted for one reason: looked at before, taken up again, each once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_counters.adjustments import cases
from django_counters.adjustments.cases import AdjustedMany
from django_counters.cached.flush import flush
from django_counters.errors import CounterUnavailable, InvalidAdjustment, InvalidDelta
from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import override_counters
from django_counters.write.changes import named
from tests.adjustments.adjustables import (
    CACHED,
    COMMITS,
    NAMED,
    WHO,
    assert_sound,
    everything,
    params,
)
from tests.settling import roll_up
from tests.testapp.models import Device, Post

pytestmark = pytest.mark.django_db
KEYS = [f"c:{number:02d}" for number in range(10)]
ASKED: dict[str, Any] = {**WHO, "case": "T-17"}


def adjust_many(**asked: Any) -> AdjustedMany:
    return Counter.objects.adjust_many(**(ASKED | asked))


def values(*keys: str) -> list[int]:
    found = Counter.objects.values_of(keys or KEYS)
    return [found[key] for key in keys or KEYS]


@pytest.fixture(params=params(NAMED))
def _declared(request: pytest.FixtureRequest, db: None) -> Iterator[None]:
    if request.param == "cached":
        request.getfixturevalue("cached")
    with override_counters(c=NAMED[request.param].declared or {}):
        yield


@pytest.mark.usefixtures("_declared")
class TestEveryStrategy:
    @COMMITS
    def test_it_is_taken_up_where_it_ended(self) -> None:
        """What was counted since is on top of what the case has set."""
        flush()
        ended: list[int] = []

        def interrupt(report: AdjustedMany) -> None:
            ended.append(len(report.changes))
            if len(ended) == 2:
                raise KeyboardInterrupt

        to = dict.fromkeys(KEYS, 7)
        with pytest.raises(KeyboardInterrupt):
            adjust_many(to=to, step=3, progress=interrupt)
        assert ended == [3, 6]
        assert values() == [7] * 6 + [0] * 4
        Counter.objects.increment_many(dict.fromkeys(KEYS, 1))
        again = adjust_many(to=to, step=3)
        assert (again.done, len(again.changes), again.refused) == (6, 4, {})
        assert values() == [8] * 6 + [7] * 4
        flush()
        roll_up()
        third = adjust_many(to=to)
        assert (third.done, third.changes, third.delta) == (10, [], 0)
        assert values() == [8] * 6 + [7] * 4
        assert_sound()

    @COMMITS
    def test_in_an_asynchronous_block_that_collects(self) -> None:
        """What is owed to a counter is part of its value."""

        async def work() -> list[tuple[int, int]]:
            async with Counter.objects.acollect():
                await Counter.objects.aincrement(KEYS[0], 5)
                await Counter.objects.aincrement(KEYS[1], 5)
                row = await Counter.objects.aadjust(KEYS[0], to=2, **WHO)
                many = await Counter.objects.aadjust_many(to={KEYS[1]: 3}, **ASKED)
                await Counter.objects.aincrement(KEYS[0], 10)
                return [(row.before, row.after), many.changes[0][1:]]

        assert async_to_sync(work)() == [(5, 2), (5, 3)]
        assert values()[:2] == [12, 3]


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("declared", [{}, {"STRATEGY": "sharded"}, CACHED], ids=str)
def test_more_counters_take_no_more_statements(
    declared: dict[str, Any], django_assert_max_num_queries: Any
) -> None:
    """Also where there are new ones, and where one is refused."""
    with override_counters(c=declared | {"APPROVE_ABOVE": 50}):
        Counter.objects.increment_many(dict.fromkeys(KEYS[:5], 3))
        for case, asked in (("few", KEYS[4:6]), ("many", KEYS)):
            # Where something has to be taken back, the step is done twice.
            with django_assert_max_num_queries(25):
                done = adjust_many(to={**dict.fromkeys(asked, 7), "c:new": 60}, case=case)
            assert len(done.changes) == len(asked)
            assert list(done.refused) == ["c:new"]
        with django_assert_max_num_queries(6):
            told = adjust_many(to=dict.fromkeys(KEYS, 9), case="dry", dry_run=True)
    assert (len(told.changes), told.delta) == (10, 20)
    assert not Counter.objects.filter(key="c:new").exists()
    assert_sound()


class TestRefused:
    def test_the_others_go_on(self, override_counters: Any) -> None:
        override_counters(c={"FLOOR": 0, "CEILING": 50, "APPROVE_ABOVE": 20})
        Counter.objects.increment_many({"c:00": 5, "c:01": 5, "c:02": 5, "c:03": 5})
        report = adjust_many(by={"c:00": -6, "c:01": 21, "c:02": 46, "c:03": 1}, approver=None)
        assert [change[:] for change in report.changes] == [("c:03", 5, 6)]
        assert set(report.refused) == {"c:00", "c:01", "c:02"}
        assert "floor" in report.refused["c:00"]
        assert "second person" in report.refused["c:01"]
        assert "ceiling" in report.refused["c:02"]
        assert values("c:00", "c:01", "c:02", "c:03") == [5, 5, 5, 6]
        assert list(adjust_many(by={"c:new": -1}).refused) == ["c:new"]
        assert not Counter.objects.filter(key="c:new").exists()
        # Those that were refused are tried anew.
        again = adjust_many(by={"c:00": -6, "c:01": 21, "c:03": 1}, approver="bob")
        assert (again.done, len(again.changes), list(again.refused)) == (1, 1, ["c:00"])
        assert_sound()

    @pytest.mark.parametrize("dry_run", [True, False])
    def test_a_case_with_another_number(self, dry_run: bool) -> None:
        adjust_many(to={"a": 5, "b": 5})
        report = adjust_many(to={"a": 6, "b": 5, "c": 5}, dry_run=dry_run)
        assert report.refused == {"a": "T-17 has adjusted it by +5"}
        assert (report.done, [change.counter for change in report.changes]) == (1, ["c"])
        report = adjust_many(by={"b": 6}, dry_run=dry_run)
        assert list(report.refused) == ["b"]
        assert values("a", "b") == [5, 5]
        assert CounterAdjustment.objects.count() == (2 if dry_run else 3)

    def test_an_adjustment_of_one_alone_belongs_to_its_case(self) -> None:
        Counter.objects.adjust("a", by=5, **ASKED)
        assert adjust_many(by={"a": 5}).done == 1
        assert values("a") == [5]

    def test_records_that_are_gone(self) -> None:
        posts = [Post.objects.create() for _ in range(3)]
        keys = [post.pk for post in posts]
        posts[1].delete()
        report = Post.objects.adjust_many("likes", to=dict.fromkeys(keys, 4), **ASKED)
        assert list(report.refused) == [f"testapp.Post.likes:{keys[1]}"]
        assert list(Post.objects.values_list("likes", flat=True)) == [4, 4]

    def test_without_redis_the_rest_is_not_tried(self) -> None:
        dead = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}
        with override_counters(c=dead), pytest.raises(CounterUnavailable):
            adjust_many(to={"a": 1, "c:0": 1, "d": 1})
        assert not CounterAdjustment.objects.exists()


class TestBadInput:
    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"to": {"a": 1}, "by": {"a": 1}},
            {"to": [("a", 1)]},
            {"to": {"a": 1}, "case": " "},
            {"to": {"a": 1}, "case": None},
            {"to": {"a": 1}, "actor": ""},
            {"to": {"a": 1}, "step": 0},
            {"to": {"a": 1, "b": None}},
        ],
        ids=str,
    )
    def test_nothing_is_done(self, asked: dict[str, Any]) -> None:
        with pytest.raises(InvalidAdjustment):
            adjust_many(**asked)
        assert everything() == [[]] * 6

    def test_the_last_of_many_is_no_number(self) -> None:
        amounts: list[Any] = [0, "1", True, 2**63]
        for amount in amounts:
            with pytest.raises(InvalidDelta):
                adjust_many(by={**dict.fromkeys(KEYS, 1), "z": amount}, step=1)
        assert everything() == [[]] * 6

    def test_two_keys_of_one_record(self) -> None:
        post, device = Post.objects.create(), Device._base_manager.create()
        with pytest.raises(InvalidAdjustment, match="twice"):
            Post.objects.adjust_many("likes", to={post.pk: 1, str(post.pk): 2}, **ASKED)
        assert not CounterAdjustment.objects.exists()
        assert device.events == 0

    def test_a_queryset_that_is_narrowed(self) -> None:
        for queryset in (Post.objects.filter(pk=1), Post.objects.all()[:1]):
            with pytest.raises(TypeError):
                queryset.adjust_many("likes", to={1: 1}, **ASKED)


class TestFields:
    @pytest.mark.django_db(databases=["default", "other"])
    def test_of_another_database(self) -> None:
        there = Post.objects.using("other").create()
        queryset = Post.objects.using("other")
        assert queryset.adjust_many("likes", to={there.pk: 3}, **ASKED).delta == 3
        there.refresh_from_db()
        assert (there.likes, CounterAdjustment.objects.exists()) == (3, False)


@pytest.mark.django_db(databases=["default", "other"])
def test_counters_of_two_databases_are_adjusted_each_in_its_own() -> None:
    """As a router may have it for the records of two models in one file."""
    amounts = {named("c:a", "other"): 4, named("c:a", "default"): 3, named("c:b", "other"): 5}
    assert len(cases.adjust_many(amounts, "to", **ASKED).changes) == 3
    assert Counter.objects.values_of(["c:a", "c:b"]) == {"c:a": 3, "c:b": 0}
    assert Counter.objects.values_of(["c:a", "c:b"], using="other") == {"c:a": 4, "c:b": 5}
