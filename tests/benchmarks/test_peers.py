"""The cases beside peers count what they say; no test asserts a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from benchmarks.cases import cached, exact, peers_cache, peers_database, peers_visits
from benchmarks.cases.statements import fixed
from benchmarks.harness import Case, Pair, WrongSum, total
from benchmarks.models import (
    BlockedAddress,
    BlockedAgent,
    FixedShard,
    NaiveCounter,
    Visit,
    VisitCount,
)
from benchmarks.pgbench import PgbenchFailed, find
from benchmarks.run import all_groups
from benchmarks.settings import COUNTERS
from django_counters.models import Counter, CounterDelta, CounterShard, CounterToken

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("tables", "few"),
]

Prepare = Callable[[], AbstractContextManager[Pair]]

IN_REDIS: dict[str, Prepare] = {
    "django-redis": peers_cache.beside_django_redis,
    "django-redis in threads": peers_cache.beside_django_redis_together,
    "prometheus": peers_cache.beside_prometheus,
}
IN_DATABASE: dict[str, Prepare] = {
    "driver": peers_database.beside_driver,
    "upsert": peers_database.beside_upsert,
    "fixed": partial(peers_database.beside_fixed, 16),
    "visits and a field": peers_visits.beside_field,
    "visits and a token": peers_visits.beside_token,
    "update": exact.updating,
}
AT_REST: dict[str, Prepare] = {
    "reading": partial(peers_database.reading_fixed, 16),
    "visits again": peers_visits.again,
}


@pytest.fixture
def few(override_counters: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespaces of the benchmarks, and as little to do as shows what is done."""
    override_counters(**{name: COUNTERS[name] for name in ("pages", "spread", "orders")})
    monkeypatch.setattr(peers_visits, "EARLIER", 10)
    monkeypatch.setattr(peers_visits, "VISITORS", 3)


@pytest.fixture(params=[*IN_REDIS, *IN_DATABASE])
def counting(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A case in which both sides count; only those about Redis get one."""
    if request.param in IN_REDIS:
        request.getfixturevalue("pages_apart")
    with (IN_REDIS | IN_DATABASE)[request.param]() as pair:
        yield pair


@pytest.fixture
def pages_apart(apart: str, few: None) -> None:
    """A Redis of these tests, and cached counters in it."""


def test_what_was_counted_is_stored(counting: Pair) -> None:
    subject = total([counting.subject(), counting.subject()]).operations
    reference = counting.reference().operations
    assert min(subject, reference) > 0
    counting.verify(subject, reference)


@pytest.mark.parametrize("wrong", [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_a_count_that_is_one_off_is_a_wrong_sum(counting: Pair, wrong: tuple[int, int]) -> None:
    subject, reference = counting.subject().operations, counting.reference().operations
    with pytest.raises(WrongSum):
        counting.verify(subject + wrong[0], reference + wrong[1])


def _one_more_shard() -> object:
    return CounterShard.objects.filter(shard=0).update(value=F("value") + 1)


def _one_more_fixed() -> object:
    return FixedShard.objects.filter(shard=0).update(value=F("value") + 1)


def _one_more_entry() -> object:
    keys = CounterDelta.objects.filter(key__startswith="orders:visits:")
    return CounterDelta.objects.append(keys.values_list("key", flat=True)[0], 1)


def _one_more_counted() -> object:
    return VisitCount.objects.update(visits=F("visits") + 1)


def _one_more_visit() -> object:
    counted = VisitCount.objects.get(visits__gt=0)
    return Visit.objects.create(visit_count=counted, session="another", address="", agent="")


@pytest.mark.parametrize("name", AT_REST)
def test_what_counts_nothing_leaves_what_is_there(name: str) -> None:
    with AT_REST[name]() as pair:
        assert min(pair.subject().operations, pair.reference().operations) > 0
        pair.verify(1, 1)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("reading", _one_more_shard),
        ("reading", _one_more_fixed),
        ("visits again", _one_more_entry),
        ("visits again", _one_more_counted),
        ("visits again", _one_more_visit),
    ],
)
def test_a_value_that_is_one_too_high_is_a_wrong_sum(
    name: str, spoil: Callable[[], object]
) -> None:
    with AT_REST[name]() as pair:
        pair.verify(1, 1)
        spoil()
        with pytest.raises(WrongSum):
            pair.verify(1, 1)


def _verbs_of(action: Callable[[], object]) -> list[str]:
    """The first words of what is sent."""
    with CaptureQueriesContext(connection) as queries:
        action()
    return [query["sql"].split()[0] for query in queries]


@pytest.mark.parametrize(("naive", "queries"), [(exact.save_one, 2), (exact.lock_one, 1)])
def test_naive_writers_count_and_take_the_queries_that_the_row_speaks_of(
    naive: Callable[[str], None], queries: int
) -> None:
    naive("seen")
    assert _verbs_of(lambda: naive("seen")) == ["BEGIN", *["SELECT"] * queries, "UPDATE", "COMMIT"]
    assert NaiveCounter.objects.get(key="seen").value == 2


def test_an_update_of_one_row_is_one_statement() -> None:
    exact.increment_one("views:one")
    assert _verbs_of(lambda: exact.update_one("views:one")) == ["UPDATE"]
    assert Counter.objects.value("views:one") == 2


def test_the_statement_of_the_driver_is_prepared_once() -> None:
    with peers_database.bare_driver() as driver:
        call = peers_database.prepared(driver, "SELECT %s + 1", [1])
        assert [call() for _ in range(3)] == [(2,)] * 3
        found = driver.execute("SELECT statement FROM pg_prepared_statements", prepare=False)
        assert found.fetchall() == [("SELECT $1 + 1",)]


def test_the_driver_sends_what_the_library_sends() -> None:
    with peers_database.beside_driver() as pair:
        before = Counter.objects.values_list("value", flat=True).get()
        pair.reference()
        after = Counter.objects.values_list("value", flat=True).get()
        assert after - before == peers_database.SLICE


def test_fixed_rows_are_drawn_and_take_one_statement_each() -> None:
    with peers_database.beside_fixed(16) as pair:
        with CaptureQueriesContext(connection) as queries:
            pair.reference()
        assert len(queries) == peers_database.SLICE
        assert FixedShard.objects.filter(value__gt=0).count() > 1
        assert FixedShard.objects.count() == 16


def _layout(table: str) -> tuple[list[str], str]:
    """What the table says of the room in its pages, and how its keys are compared."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reloptions, collname FROM pg_class "
            "JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'key' "
            "JOIN pg_collation ON pg_collation.oid = attcollation WHERE relname = %s",
            [table],
        )
        ((room, collation),) = cursor.fetchall()
        return room, collation


def test_fixed_rows_are_laid_out_as_those_of_the_library() -> None:
    ours = _layout(CounterShard._meta.db_table)
    assert ours == (["fillfactor=60"], "C")
    with peers_database.beside_fixed(16):
        assert _layout(FixedShard._meta.db_table) == ours
    assert _layout(fixed(16).name) == ours


@pytest.mark.parametrize("prepare", [peers_visits.beside_token, peers_visits.again])
def test_both_sides_have_as_many_earlier_visits(prepare: Prepare) -> None:
    with prepare():
        earlier = Visit.objects.count()
        assert earlier >= peers_visits.EARLIER
        assert CounterDelta.objects.count() == CounterToken.objects.count() == earlier


def test_a_visit_takes_the_statements_that_the_row_speaks_of() -> None:
    with peers_visits.beside_field() as pair:
        asked = ["SELECT"] * 4
        assert _verbs_of(pair.reference) == [*asked, "UPDATE", "INSERT"] * peers_visits.VISITORS
        assert _verbs_of(pair.subject) == ["UPDATE"] * peers_visits.VISITORS
    with peers_visits.again() as pair:
        assert _verbs_of(pair.reference) == asked * peers_visits.VISITORS


@pytest.mark.parametrize("blocked", [BlockedAddress, BlockedAgent])
def test_who_is_blocked_is_not_counted(blocked: type[BlockedAddress | BlockedAgent]) -> None:
    with peers_visits.beside_field() as pair:
        if blocked is BlockedAddress:
            BlockedAddress.objects.create(address=peers_visits.ADDRESS)
        else:
            BlockedAgent.objects.create(agent=peers_visits.AGENT)
        pair.reference()
        pair.verify(0, 0)


def test_a_session_counts_again_after_a_week() -> None:
    with peers_visits.again() as pair:
        Visit.objects.update(created=F("created") - peers_visits.ACTIVE)
        pair.reference()
        with pytest.raises(WrongSum, match=f"visits: the database has {2 * peers_visits.VISITORS}"):
            pair.verify(1, 1)


@pytest.mark.usefixtures("pages_apart")
def test_django_redis_is_asked_what_it_says() -> None:
    with cached.client() as client, peers_cache.beside_django_redis() as pair:
        client.config_resetstat()
        pair.reference()
        calls = client.info("commandstats")
        assert calls["cmdstat_eval"]["calls"] == cached.SLICE
        assert calls["cmdstat_incrby"]["calls"] == cached.SLICE  # within the script
        assert "cmdstat_evalsha" not in calls


def test_cases_leave_no_tables() -> None:
    before = connection.introspection.table_names()
    for prepare in (*IN_DATABASE.values(), *AT_REST.values()):
        with prepare():
            pass
    left = set(connection.introspection.table_names()) - set(before)
    assert all(name.startswith("upsert_") for name in left)  # as that of the ledger's cases


@pytest.mark.parametrize("case", peers_database.COMMITS, ids=lambda case: case.name)
def test_clients_that_commit_count_in_shards_and_in_fixed_rows(case: Case) -> None:
    try:
        find()
    except PgbenchFailed as error:
        pytest.skip(str(error))
    with case.prepare() as pair:
        subject, reference = pair.subject().operations, pair.reference().operations
        pair.verify(subject, reference)
        for wrong in ((subject + 1, reference), (subject, reference + 1)):
            with pytest.raises(WrongSum):
                pair.verify(*wrong)


def test_the_rows_beside_peers_are_shown_and_not_judged() -> None:
    fast, durable = ({case.name: case for case in group.cases} for group in all_groups())
    peers = (*peers_database.CASES, *peers_visits.CASES, *peers_cache.CASES)
    assert {case.name for case in peers} <= fast.keys()
    assert {case.name for case in peers_database.COMMITS} <= durable.keys()
    assert all(case.target is None for case in (*peers, *peers_database.COMMITS))
