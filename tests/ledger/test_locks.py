"""How many locks of a server the ledger takes, where it has many partitions."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction

from django_counters import clock
from django_counters.contrib import series
from django_counters.ledger import upkeep as partitions
from django_counters.ledger.horizon import SqlHorizon
from django_counters.ledger.inquiry import SqlInquiry
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.upkeep import make_ahead
from django_counters.metrics.doctor import examine
from django_counters.models import Counter, CounterDelta
from django_counters.stores.sql.tables import NAMED
from django_counters.testing import override_counters
from django_counters.tokens import mint, moment_of
from django_counters.upkeep import verify
from tests.settling import let_others_end, roll_up

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]
OLD, LATE = 100, 3
# The present partition and those of a window of tokens, with their indexes: eleven, seven of which
# are ahead.
FEW = 60
# With sealed ones that have to be read: twenty, and those that have transactions among theirs.
SOME = 150


def locks() -> int:
    """How many relations this transaction holds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'"
        )
        (number,) = cursor.fetchone()
    return int(number)


def held(call: Callable[[], object]) -> int:
    """How many a call takes, with the plans that it keeps after a few calls."""
    for _ in range(8):
        call()
    with transaction.atomic():
        call()
        return locks()


def enter(moment: datetime) -> None:
    """Write an entry of 1 as if it came then: no token is that old."""
    token = mint(moment)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {CounterDelta._meta.db_table} (token, created_at, key, delta) "
            "VALUES (%s, %s, 'led:a', 1)",
            [token, moment_of(token)],
        )


def most_held(call: Callable[[], object]) -> int:
    """The most locks that a statement of a call takes, where each is a transaction of its own."""
    most = 0

    def count(run: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal most
        if "pg_locks" in sql:
            return run(sql, params, many, context)
        with transaction.atomic(savepoint=False):
            result = run(sql, params, many, context)
            most = max(most, locks())
        return result

    with connection.execute_wrapper(count):
        call()
    return most


@pytest.fixture
def _old_partitions() -> Iterator[None]:
    """A hundred days that are over and sealed, and entries of today that are rolled up.

    Each day has an entry at another time. One of them has three, and a fourth one, which came after
    those of all later days.
    """
    make_ahead("default")
    store, day = SqlPartitions("default"), timedelta(days=1)
    first = store.present()[0].since
    made = [
        store.create(first - number * day, first - (number - 1) * day)
        for number in range(1, OLD + 1)
    ]
    CounterDelta.objects.append("led:a", 5)
    for number in (*range(OLD, LATE, -1), *[LATE] * 3, *range(LATE - 1, 0, -1), LATE):
        enter(first - number * day + timedelta(minutes=7 * number))
    roll_up()
    roll_up()
    for extent in store.present()[:OLD]:
        assert store.seal(extent)
    CounterDelta.objects.append("led:a", 2)
    yield
    with connection.cursor() as cursor:
        for name in made:
            cursor.execute(f'DROP TABLE "{name}"')


@pytest.mark.usefixtures("_old_partitions")
def test_doctor_compares_all_partitions_with_the_locks_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with transaction.atomic():
        list(CounterDelta.objects.filter(key="led:a"))
        taken = locks()
    counted, room = SqlPartitions("default").locks()
    # Those of the view of locks itself are not among them.
    assert abs(counted - taken) < 10
    for readers, warned in ((room // counted - 1, False), (room // counted + 1, True)):
        monkeypatch.setattr(partitions, "FEWEST_READERS", readers)
        told = [finding.action for finding in examine("default")]
        assert any("max_locks_per_transaction" in problem for problem in told) is warned


@pytest.mark.usefixtures("_old_partitions")
def test_what_reads_the_ledger_locks_the_partitions_of_its_tail() -> None:
    token, other = mint(clock.utc()), mint(clock.utc())
    inquiry = SqlInquiry(NAMED, "default")
    with override_counters(led={"STRATEGY": "ledger"}):
        calls: dict[str, Callable[[], object]] = {
            "value": lambda: Counter.objects.value("led:a"),
            "values": lambda: Counter.objects.values_of(["led:a", "led:b"]),
            "replay": lambda: Counter.objects.increment("led:a", token=token),
            "waiting": inquiry.waiting,
            "rollup": lambda: SqlHorizon("default").fold(),
            "another's token": lambda: Counter.objects.increment("plain:a", token=other),
        }
        found = {name: held(call) for name, call in calls.items()}
        assert Counter.objects.value("led:a") == 11 + OLD
    assert {name: number for name, number in found.items() if number > FEW} == {}


@pytest.mark.usefixtures("_old_partitions")
def test_a_former_value_locks_the_partition_of_its_moment() -> None:
    now = clock.utc()
    for days in (0, 1, 3, 30, OLD - 1):
        moment = now - timedelta(days=days)
        later = CounterDelta.objects.filter(created_at__gt=moment).count()
        # Entries of today are 5 and 2, all others 1.
        expected = 10 + OLD - (later - 2 + 7 if days else 0)
        assert Counter.objects.value_at("led:a", moment) == expected
        assert held(partial(Counter.objects.value_at, "led:a", moment)) <= FEW


@pytest.mark.usefixtures("_old_partitions")
@pytest.mark.parametrize("zone", [UTC, ZoneInfo("Asia/Kolkata")], ids=str)
@pytest.mark.parametrize("by", ["hour", "day", "week"])
def test_a_long_history_locks_some_partitions_at_once(by: str, zone: tzinfo) -> None:
    since, until = clock.utc() - timedelta(days=OLD - 3), clock.utc() + timedelta(hours=1)
    read = partial(series.history, "led:a", by, since=since, until=until, tz=zone)
    found = read()
    rows = CounterDelta.objects.filter(created_at__gte=found[0].start).values_list(
        "created_at", "delta"
    )
    expected: Sums[datetime] = Sums()
    for moment, delta in rows:
        expected[max(one.start for one in found if one.start <= moment)] += delta
    assert {one.start: one.change for one in found if one.change} == expected
    assert sum(one.entries or 0 for one in found) == len(rows)
    assert most_held(read) <= (FEW if (by, zone) == ("day", UTC) else SOME)


@pytest.mark.usefixtures("_old_partitions")
def test_the_last_entries_lock_the_partitions_that_have_them() -> None:
    entries = CounterDelta.objects.order_by("-xid", "-seq").values_list("token", flat=True)
    for last in (1, 2, 3, 4, 5, 10, OLD + 4, OLD + 5, OLD + 9):
        found = Counter.objects.explain("led:a", last=last)
        assert [entry.token for entry in found.entries] == list(entries[:last])
        assert (found.value, found.tail, found.archived) == (10 + OLD, 2, 0)
    # The partition with the one that came last, and those that came after its first one.
    assert held(lambda: Counter.objects.explain("led:a", last=2)) <= FEW + 4 * LATE
    assert held(lambda: Counter.objects.explain("led:other")) <= FEW


@pytest.mark.usefixtures("_old_partitions")
def test_a_follower_locks_the_partitions_of_a_page() -> None:
    entries = list(CounterDelta.objects.order_by("xid", "seq").values_list("token", flat=True))
    read: list[Any] = []
    position = ""
    let_others_end()
    while (page := CounterDelta.objects.since(position, most=30)).entries:
        assert most_held(partial(CounterDelta.objects.since, position, most=30)) <= SOME
        read += [entry.token for entry in page.entries]
        position = page.position
    assert read == entries
    assert held(partial(CounterDelta.objects.since, position)) <= FEW


@pytest.mark.usefixtures("_old_partitions")
def test_a_verification_locks_one_sealed_partition_after_the_other() -> None:
    assert verify().drifts == []
    for call in (verify, partial(verify, namespace="led"), partial(verify, sample=1)):
        assert most_held(call) <= FEW


@pytest.mark.usefixtures("_old_partitions")
def test_doctor_locks_no_partition_that_it_counts() -> None:
    assert most_held(lambda: examine("default")) <= FEW


@pytest.mark.parametrize("declared", [{"STRATEGY": "sharded"}, {"STRATEGY": "exact"}])
def test_a_new_counter_locks_nothing_of_a_ledger_that_was_never_used(
    declared: dict[str, Any],
) -> None:
    ledger = CounterDelta._meta.db_table
    with override_counters(hits=declared), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"ALTER SEQUENCE {ledger}_seq_seq RESTART")
        assert Counter.objects.increment("hits:a") == 1
        Counter.objects.increment_many({"hits:a": 1, "hits:b": 2})
        assert Counter.objects.values_of(["hits:a", "hits:b", "hits:c"]) == {
            **{"hits:a": 2, "hits:b": 2, "hits:c": 0}
        }
        assert Counter.objects.value("hits:d") == 0
        cursor.execute(
            "SELECT relation::regclass::text FROM pg_locks WHERE pid = pg_backend_pid() "
            "AND locktype = 'relation' AND relation::regclass::text LIKE %s",
            [f"{ledger}%"],
        )
        assert {name for (name,) in cursor.fetchall()} <= {f"{ledger}_seq_seq"}
        transaction.set_rollback(True)
