"""What is around an adjustment: tokens, blocks that collect, other strategies and snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import override_settings

from django_counters import clock
from django_counters.adjustments.adjustment import preview
from django_counters.cached.flush import flush
from django_counters.errors import (
    ApprovalRequired,
    InsufficientCount,
    RetryTransaction,
    TokenConflict,
    ValueChanged,
)
from django_counters.models import (
    Counter,
    CounterAdjustment,
    CounterDelta,
    SlottedCounter,
)
from django_counters.testing import override_counters
from django_counters.tokens import mint, moment_of
from django_counters.write.changes import named
from tests.adjustments.adjustables import (
    COMMITS,
    WHO,
    Adjustable,
    assert_sound,
    nothing_written,
    parts,
    upkeep,
)
from tests.testapp.models import Post

pytestmark = pytest.mark.django_db
adjust = Counter.objects.adjust


class TestTokens:
    @COMMITS
    def test_a_token_that_an_increment_has_used(self, counter: Adjustable) -> None:
        token = mint(clock.utc())
        counter.increment(3, token=token)
        flush()
        with nothing_written(counter), pytest.raises(TokenConflict):
            counter.adjust(by=3, token=token)

    def test_a_token_that_an_adjustment_has_used(self, counter: Adjustable) -> None:
        token = mint(clock.utc())
        counter.adjust(by=3, token=token)
        if counter.strategy == "cached":
            pytest.skip("a cached counter asks Redis alone whether a token was used")
        with nothing_written(counter), pytest.raises(TokenConflict):
            counter.increment(3, token=token)

    def test_a_token_of_a_refused_one_is_free(self, counter: Adjustable) -> None:
        with pytest.raises(ValueChanged):
            counter.adjust(by=3, expected=1, token="t-1")
        assert counter.adjust(by=3, expected=0, token="t-1").replayed is False

    def test_two_fields_are_two_counters(self) -> None:
        post = Post.objects.create()
        post.likes.adjust(by=3, token="t-1", **WHO)
        with pytest.raises(TokenConflict):
            post.views.adjust(by=3, token="t-1", **WHO)
        with pytest.raises(TokenConflict):
            SlottedCounter.objects.adjust(post, "downloads", by=3, token="t-1", **WHO)


class TestCollect:
    def test_what_is_owed_is_part_of_the_value(self, counter: Adjustable) -> None:
        with Counter.objects.collect():
            counter.increment(5)
            if counter.strategy == "cached":
                # It is sent when the transaction commits, and is on top of the adjustment.
                assert parts(counter.adjust(to=3)) == (0, 3, 3)
            else:
                assert preview(named(counter.key), to=3).before == 5
                assert parts(counter.adjust(to=3)) == (5, 3, -2)
            counter.increment(10)
        assert counter.value() == 13 + 5 * (counter.strategy == "cached")
        assert_sound()

    def test_a_refused_one_takes_nothing_of_what_is_owed(self, counter: Adjustable) -> None:
        with Counter.objects.collect():
            counter.increment(5)
            with pytest.raises(ValueChanged):
                counter.adjust(to=3, expected=99)
            counter.increment(10)
        assert counter.value() == 15
        assert not CounterAdjustment.objects.exists()


class TestPreview:
    def test_it_says_what_would_be_refused(self, override_counters: Any) -> None:
        override_counters(c={"FLOOR": 0, "APPROVE_ABOVE": 10})
        assert isinstance(preview(named("c:a"), by=-1).refusal, InsufficientCount)
        seen = preview(named("c:a"), to=11)
        assert isinstance(seen.refusal, ApprovalRequired)
        assert (seen.needs_approval, seen.after) == (True, 11)
        assert preview(named("c:a"), by=-1, allow_below_floor=True).refusal is None
        assert not Counter.objects.exists()


@COMMITS
@pytest.mark.postgresql
class TestOneSnapshot:
    """A transaction that does not see what others commit is right, or told to try again."""

    @pytest.fixture(autouse=True)
    def _snapshots(self) -> Iterator[None]:
        options = connection.settings_dict["OPTIONS"]
        connection.close()
        connection.settings_dict["OPTIONS"] = {
            **options,
            "options": "-c default_transaction_isolation=repeatable\\ read",
        }
        yield
        connection.close()
        connection.settings_dict["OPTIONS"] = options

    def test_alone_it_reads_what_is_committed(self, counter: Adjustable, elsewhere: Any) -> None:
        counter.increment(5)
        elsewhere(lambda: counter.increment(1))
        assert parts(counter.adjust(to=9)) == (6, 9, 3)

    def test_an_adjustment_since_the_snapshot(self, counter: Adjustable, elsewhere: Any) -> None:
        with pytest.raises(RetryTransaction), transaction.atomic():
            assert not CounterAdjustment.objects.exists()
            elsewhere(lambda: adjust("other", to=1, **WHO))
            counter.adjust(to=9)
        assert counter.value() == 0
        assert counter.adjust(to=9).number == 2
        assert_sound()

    def test_an_increment_since_the_snapshot(self, counter: Adjustable, elsewhere: Any) -> None:
        """Where it does not see one, that one is on top."""
        counter.increment(5)
        seen = True
        try:
            with transaction.atomic():
                assert not CounterAdjustment.objects.exists()
                elsewhere(lambda: counter.increment(1))
                elsewhere(flush)
                row = counter.adjust(to=9)
        except RetryTransaction:
            seen = False
            row = counter.adjust(to=9)
        assert row.after == 9
        assert counter.value() == 9 + (6 - row.before)
        assert row.before == 6 or (seen and row.before == 5)
        upkeep()
        assert counter.value() == 9 + (6 - row.before)
        assert_sound()


def test_a_user_who_logs_in_with_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(User, "get_username", lambda _: 4711)
    user = User.objects.create_user("worker")
    row = Counter.objects.adjust("c:a", to=1, reason="a stocktake", actor=user)
    assert (row.actor_id, row.actor_name) == (str(user.pk), "4711")


@COMMITS
def test_a_project_without_time_zones() -> None:
    """An entry stands at the moment at which it was made, whatever a naive one would mean."""
    ledger = {"STRATEGY": "ledger"}
    with (
        override_settings(USE_TZ=False, TIME_ZONE="Asia/Kolkata"),
        override_counters(orders=ledger),
    ):
        connection.close()
        began = clock.utc() - timedelta(seconds=1)
        row = Counter.objects.adjust("orders:a", to=5, reason="a stocktake", actor="ann")
        CounterDelta.objects.append_many([("orders:a", 2)], copy=True)
        tokens = [entry.token for entry in Counter.objects.explain("orders:a").entries]
        assert row.entry in tokens
        assert all(began < moment_of(token) < clock.utc() for token in tokens)
        connection.close()
