"""Logical replication to another server, which takes over: it counts on, exactly."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import IntegrityError, connections
from psycopg.conninfo import make_conninfo
from pytest_django import DjangoDbBlocker

from django_counters import clock
from django_counters.adjustments.audit import verify_audit
from django_counters.errors import LedgerFenced, LedgerIncomplete
from django_counters.ledger import upkeep as ledger
from django_counters.ledger.horizon import SqlHorizon
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.upkeep import maintain
from django_counters.models import Counter, CounterDelta, CounterHorizon
from django_counters.stores.sql.dialects.spelling import DELTAS
from django_counters.tokens import mint
from django_counters.upkeep import rollup, verify
from example_project.bootstrap import children
from tests.concurrency.servers import connected, execute, server
from tests.ledger.test_restore import run
from tests.settling import roll_up
from tests.testapp.models import Post, Song

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]
DAY = timedelta(days=1)
PATIENCE = 30.0
KEYS = ("orders:a", "likes:a", "votes:a")
ADJUSTED = "votes:b"
# How many days ago entries were made. A partition has ended a day later at most.
OLD = (9, 8, 7, 5, 4)
ENTRY = (
    f"INSERT INTO {DELTAS} (token, created_at, key, delta) "
    "VALUES (gen_random_uuid(), {}, 'orders:a', 70000)"
)
COLUMNS = "token, created_at, key, delta, kind, xid, seq"
TABLES = (
    "SELECT 'TABLE ' || string_agg(relname, ', ') FROM pg_class WHERE relkind IN ('r', 'p') "
    "AND NOT relispartition AND relname ~ '^(django_counters|testapp|django_content_type)'"
)


@pytest.fixture(scope="module")
def servers(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The server that counts, and the one that takes over."""
    with ExitStack() as running:
        # They ask the server of the tests for its version.
        with django_db_blocker.unblock():
            origin = running.enter_context(server(wal_level="logical"))
            target = running.enter_context(server())
        yield origin, target


@pytest.fixture(autouse=True)
def _databases(
    transactional_db: None,
    servers: tuple[Mapping[str, Any], Mapping[str, Any]],
    override_counters: Callable[..., None],
) -> Iterator[None]:
    """An empty database on each, as ``origin`` and ``target``."""
    override_counters(orders={"STRATEGY": "ledger"}, likes={"STRATEGY": "sharded"})
    name, (origin, target) = f"moved_{secrets.token_hex(4)}", servers
    for one in servers:
        with connected("fresh", **one):
            execute(f"CREATE DATABASE {name}", using="fresh")
            # Not five seconds, for a partition that is missing.
            execute("ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms'", using="fresh")
            execute("SELECT pg_reload_conf()", using="fresh")
    with (
        connected("origin", **{**origin, "NAME": name}),
        connected("target", **{**target, "NAME": name}),
    ):
        ContentType.objects.clear_cache()
        yield


def copy_schema(source: str, to: str, folder: Path) -> None:
    dump, name = str(folder / to), connections[to].settings_dict["NAME"]
    run("pg_dump", source, "--schema-only", "--format=custom", f"--file={dump}")
    run("pg_restore", to, "--no-owner", f"--dbname={name}", dump)


def know_tokens_for(days: int) -> None:
    CounterHorizon.objects.using("origin").update(token_window=days * DAY)


def fill() -> None:
    """Two entries in each of some partitions: the first is dropped, the second one sealed."""
    SqlHorizon("origin").found()
    know_tokens_for(10)
    maintain("origin")
    for days in OLD:
        for _ in range(2):
            token = mint(clock.utc() - days * DAY)
            CounterDelta.objects.append("orders:a", 10**days, token=token, using="origin")
    Post.objects.using("origin").create()
    Song.objects.using("origin").create()
    count("origin")
    roll_up("origin")
    know_tokens_for(6)
    maintain("origin")
    assert maintain("origin", keep=8 * DAY).dropped
    count("origin")


def count(using: str) -> None:
    """With each strategy that keeps its counts in a database."""
    for key in KEYS:
        Counter.objects.increment(key, using=using)
    post, song = Post.objects.using(using).get(), Song.objects.using(using).get()
    Counter.objects.adjust(ADJUSTED, by=1, reason="A test", actor="t", using=using)
    post.views.increment()
    song.plays.increment()
    song.stars.increment()


def values(using: str) -> list[int]:
    """Of all counters, with what is not rolled up yet."""
    post, song = Post.objects.using(using).get(), Song.objects.using(using).with_counts().get()
    named = Counter.objects.values_of([*KEYS, ADJUSTED], using=using)
    return [*named.values(), int(post.views), int(song.plays), int(song.stars)]


def expected(times: int, more: int = 0) -> list[int]:
    """After so many calls of `count`, and ``more`` in the ledger."""
    return [2 * sum(10**days for days in OLD) + more + times, *[times] * 6]


@contextmanager
def subscribed(tables: str, via_root: bool) -> Iterator[None]:
    """``target`` has a copy of all rows, and follows; at the end it follows no more."""
    options = f"publish_via_partition_root = {via_root}"
    execute(f"CREATE PUBLICATION moving FOR {tables} WITH ({options})", using="origin")
    info = connections["origin"].connection.info
    where = {"host": info.host, "port": info.port, "user": info.user, "dbname": info.dbname}
    address, slot = make_conninfo(**where, password=info.password), info.dbname
    execute(
        f"CREATE SUBSCRIPTION moving CONNECTION %s PUBLICATION moving WITH (slot_name = {slot})",
        address,
        using="target",
    )
    try:
        wait_for_copies()
        yield
    finally:
        execute("DROP SUBSCRIPTION moving", using="target")


def wait_for_copies() -> None:
    """Until all tables have been copied and follow."""
    copying = "SELECT 1 FROM pg_subscription_rel WHERE srsubstate <> 'r'"
    assert children.until(lambda: not execute(copying, using="target"), PATIENCE)


def catch_up() -> None:
    """Wait until ``target`` has all that ``origin`` has committed by now."""
    ((position,),) = execute("SELECT pg_current_wal_lsn()", using="origin")
    reached = (
        "SELECT 1 FROM pg_replication_slots "
        "WHERE slot_name = current_database() AND confirmed_flush_lsn >= %s::pg_lsn"
    )
    assert children.until(lambda: bool(execute(reached, position, using="origin")), PATIENCE)


def refused(using: str) -> int:
    """How many sealed partitions refuse what is new."""
    sealed = SqlPartitions(using).sealed().values()
    for partition in sealed:
        with pytest.raises(IntegrityError, match="django_counters_sealed"):
            execute(ENTRY.format("%s"), partition.since, using=using)
    return len(sealed)


def reset_sequences(using: str) -> None:
    """Identity columns begin anew in the copy."""
    labels = [config.label for config in apps.get_app_configs() if config.models_module]
    told = StringIO()
    call_command("sqlsequencereset", *labels, database=using, no_color=True, stdout=told)
    execute(told.getvalue(), using=using)


def present(using: str) -> list[str]:
    return [extent.name for extent in SqlPartitions(using).present()]


def assert_exact(expected: list[int]) -> None:
    """Before and after a rollup of the one that took over."""
    assert values("target") == expected
    roll_up("target")
    assert values("target") == expected
    assert (verify("target").drifts, verify_audit("target").flaws) == ([], [])


def assert_refused_without_the_last_of(delta: int) -> None:
    """It can be restored then."""
    last = f"seq = (SELECT MAX(seq) FROM {DELTAS} WHERE delta = %s)"
    delete = f"DELETE FROM {DELTAS} WHERE {last} RETURNING {COLUMNS}"
    (entry,) = execute(delete, delta, using="target")
    with pytest.raises(LedgerIncomplete, match="1 of 2 entries"):
        ledger.rebase("target")
    values = ", ".join(["%s"] * len(entry))
    execute(f"INSERT INTO {DELTAS} ({COLUMNS}) VALUES ({values})", *entry, using="target")


def test_each_table_says_which_row_is_changed(tmp_path: Path) -> None:
    """Without a primary key, a table that is published refuses UPDATE and DELETE."""
    copy_schema("default", "origin", tmp_path)
    maintain("origin", ahead=8)
    said = execute(
        "SELECT DISTINCT relkind = 'p', relispartition, relreplident = 'd' AND EXISTS "
        "(SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary) FROM pg_class c "
        "WHERE relkind IN ('r', 'p') AND relname LIKE 'django\\_counters%' ORDER BY 1, 2",
        using="origin",
    )
    assert said == [(False, False, True), (False, True, True), (True, False, True)]


@pytest.mark.parametrize(("everything", "via_root"), [(True, True), (False, False)])
def test_the_subscriber_takes_over(everything: bool, via_root: bool, tmp_path: Path) -> None:
    copy_schema("default", "origin", tmp_path)
    fill()
    copy_schema("origin", "target", tmp_path)
    ((some,),) = execute(TABLES, using="origin")
    with subscribed("ALL TABLES" if everything else some, via_root):
        assert values("target") == expected(2)
        for _ in range(3):
            count("origin")
        roll_up("origin")
        count("origin")
        # No change of a schema comes along: here the copy has no partition for an entry.
        maintain("origin", ahead=8)
        execute(ENTRY.format("now() + INTERVAL '8 days'"), using="origin")
        know_tokens_for(2)
        made = maintain("target", ahead=8)
        if not via_root:
            execute("ALTER SUBSCRIPTION moving REFRESH PUBLICATION", using="target")
            wait_for_copies()
        catch_up()
        # What waits to be sealed is left to the other server, which sends a row about it.
        again = maintain("target", keep=timedelta(0))
        assert (len(made.created), again.sealed, again.dropped) == (1, [], [])
        roll_up("origin")
        assert maintain("origin").sealed
        assert len(maintain("origin", keep=7 * DAY).dropped) == 1
        count("origin")
        catch_up()
    assert values("target") == values("origin") == expected(7, 70_000)
    assert len(present("target")) == len(present("origin")) + 1
    with pytest.raises(LedgerFenced):
        rollup("target")
    # One that was sealed, and one that was dropped.
    for days in (4, 8):
        assert_refused_without_the_last_of(10**days)

    reset_sequences("target")
    ledger.rebase("target")
    assert_exact(expected(7, 70_000))
    assert present("target") == present("origin")
    assert refused("target") == refused("origin") >= 4
    assert ledger.state("target").fenced == ""
    count("target")
    assert_exact(expected(8, 70_000))
    assert maintain("target", keep=6 * DAY).dropped
    assert_exact(expected(8, 70_000))
