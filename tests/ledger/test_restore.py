"""A dump that is restored into another server: the rollup refuses, and a rebase is exact."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connections, transaction
from pytest_django import DjangoDbBlocker

from django_counters import clock
from django_counters.errors import LedgerFenced, LedgerIncomplete
from django_counters.ledger import upkeep as ledger
from django_counters.ledger.upkeep import maintain
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterIncident,
    CounterPartition,
)
from django_counters.stores.sql.dialects.postgresql.functions import SEQUENCE
from django_counters.stores.sql.dialects.spelling import DELTAS, HORIZON
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import rollup, verify
from tests.concurrency.narrow import dropped, know_tokens_for, narrow
from tests.concurrency.servers import connected, execute, program, server
from tests.settling import roll_up

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def cluster(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[Mapping[str, Any]]:
    """Another server, which has hardly begun any transactions yet."""
    with ExitStack() as running:
        # It asks the server of the tests for its version.
        with django_db_blocker.unblock():
            settings = running.enter_context(server())
        yield settings


def append(by: int, using: str = "default") -> None:
    CounterDelta.objects.append("a", by, using=using)


def value(using: str = "restored") -> int:
    return Counter.objects.value("a", using=using)


@contextmanager
def filled() -> Iterator[None]:
    """1 that is no entry, 20 in a partition that is dropped, 300 rolled up, and 4000 that wait."""
    with narrow(HOUR, window=10 * HOUR):
        Counter.objects.increment("a", 1)
        CounterDelta.objects.append("a", 20, token=mint(clock.utc() - 9 * HOUR))
        append(300)
        begin_transactions(20_000)
        roll_up()
        know_tokens_for(HOUR)
        for _ in range(2):
            maintain(width=HOUR, keep=timedelta(0))
        assert sum(record.entries for record in dropped()) == 1
        append(4000)
        assert value("default") == 4321
        yield


def begin_transactions(number: int, using: str = "default") -> None:
    """As on a server that has been running for a while."""
    execute("SET synchronous_commit = off", using=using)
    execute(
        f"DO $$ BEGIN FOR i IN 1..{number} LOOP "
        "PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
        using=using,
    )


@pytest.fixture
def _restored(transactional_db: None, cluster: Mapping[str, Any], tmp_path: Path) -> Iterator[None]:
    """The database of the test on the other server, as ``restored`` and ``beside``.

    The first test restores it; all of them work on copies.
    """
    name = f"copy_{secrets.token_hex(4)}"
    with connected("fresh", **cluster):
        if not execute("SELECT 1 FROM pg_database WHERE datname = 'original'", using="fresh"):
            restore(str(tmp_path / "dump"))
        execute(f"CREATE DATABASE {name} TEMPLATE original", using="fresh")
    with connected("restored", "beside", **{**cluster, "NAME": name}):
        yield


def restore(dump: str) -> None:
    """Dump the database of the test, and restore it as ``original`` in the other server."""
    with filled():
        run("pg_dump", "default", "--format=custom", f"--file={dump}")
    execute("CREATE DATABASE original", using="fresh")
    run("pg_restore", "fresh", "--no-owner", "--single-transaction", "--dbname=original", dump)


def run(name: str, using: str, *arguments: str) -> None:
    """Run a program of PostgreSQL against the database of a connection."""
    path = program().path.with_name(name)
    if not path.exists():
        pytest.skip(f"there is no {name} beside {program()}")
    connections[using].ensure_connection()
    info = connections[using].connection.info
    where = {"HOST": info.host, "PORT": str(info.port), "USER": info.user, "DATABASE": info.dbname}
    environment = {f"PG{what}": text for what, text in where.items()}
    told = subprocess.run(
        [path, *arguments],
        env={**os.environ, **environment, "PGPASSWORD": info.password},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr


def assert_exact(expected: int, using: str = "restored") -> None:
    """Before and after a rollup."""
    assert value(using) == expected
    roll_up(using)
    assert value(using) == expected
    assert Counter.objects.using(using).get(key="a").value == expected
    assert verify(using).drifts == []


def assert_nothing_can_be_appended(using: str) -> None:
    """In no way, and the error says what to do."""
    entries, token = CounterDelta.objects, mint(clock.utc())
    calls: list[Callable[[], Any]] = [
        lambda: entries.append("a", 5, using=using),
        lambda: entries.append("a", 5, token=token, using=using),
        lambda: entries.append_many([("a", 5), ("b", 5)], using=using),
        lambda: entries.append_many([("a", 5, token)], using=using),
        lambda: entries.append_many([("a", 5)], copy=True, using=using),
        lambda: Counter.objects.increment_many({"orders:a": 1}, using=using),
        lambda: Counter.objects.adjust("orders:a", by=1, reason="A test", actor="t", using=using),
    ]
    with override_counters(orders={"STRATEGY": "ledger"}):
        for call in calls:
            with pytest.raises(LedgerFenced, match="counters rebase"):
                call()


@contextmanager
def copied(tables: str, **cluster: Any) -> Iterator[None]:
    """The tables of ``restored`` on the same server, as ``copied``: no sequence comes along."""
    name = f"tables_{secrets.token_hex(4)}"
    sequences = "--exclude-table-data=*_seq"
    run("pg_dump", "restored", "--format=custom", sequences, f"--file={tables}")
    execute(f"CREATE DATABASE {name}", using="restored")
    run("pg_restore", "restored", "--no-owner", f"--dbname={name}", tables)
    with connected("copied", **{**cluster, "NAME": name}):
        yield


def look_young() -> None:
    """As if the first server had begun hardly any transactions: its numbers are all below ours."""
    ((offset,),) = execute(f"SELECT horizon - 3 FROM {HORIZON}", using="restored")
    execute(f"UPDATE {DELTAS} SET xid = xid - %s", offset, using="restored")
    changes = "horizon = horizon - %s, mark_xid = 0"
    execute(f"UPDATE {HORIZON} SET {changes}", offset, using="restored")


class TestSealed:
    """Entries of a partition that is sealed, and is kept, come along."""

    @pytest.fixture
    def _sealed(self, transactional_db: None) -> Iterator[None]:
        """20 in a sealed partition, 300 in one that is open."""
        with narrow(HOUR, window=10 * HOUR):
            CounterDelta.objects.append("a", 20, token=mint(clock.utc() - 9 * HOUR))
            append(300)
            roll_up()
            know_tokens_for(HOUR)
            maintain(width=HOUR)
            (sealed,) = CounterPartition.objects.filter(entries=1)
            assert sealed.dropped_at is None
            yield

    @contextmanager
    def by_parts(self, cluster: Mapping[str, Any], folder: Path) -> Iterator[None]:
        """The schema first, then the data, as ``restored``."""
        name = f"parts_{secrets.token_hex(4)}"
        with connected("fresh", **cluster):
            execute(f"CREATE DATABASE {name}", using="fresh")
            for part in ("schema", "data"):
                dump = str(folder / part)
                run("pg_dump", "default", f"--{part}-only", "--format=custom", f"--file={dump}")
                run("pg_restore", "fresh", "--no-owner", f"--dbname={name}", dump)
        with connected("restored", **{**cluster, "NAME": name}):
            yield

    @pytest.mark.usefixtures("_sealed")
    def test_they_are_restored_after_their_schema(
        self, cluster: Mapping[str, Any], tmp_path: Path
    ) -> None:
        with self.by_parts(cluster, tmp_path):
            ledger.rebase("restored")
            assert_exact(320)
            append(4000, "restored")
            assert_exact(4320)

    @pytest.mark.usefixtures("_sealed")
    def test_a_rebase_refuses_where_some_are_missing(
        self, cluster: Mapping[str, Any], tmp_path: Path
    ) -> None:
        with self.by_parts(cluster, tmp_path):
            execute(f"DELETE FROM {DELTAS} WHERE delta = 20", using="restored")
            with pytest.raises(
                LedgerIncomplete, match=r"0 of 1 entries .* run manage\.py counters rebase"
            ):
                ledger.rebase("restored")
            assert Counter.objects.using("restored").get(key="a").value == 320

    @pytest.mark.usefixtures("_sealed")
    def test_nothing_new_is_written_there(self) -> None:
        (sealed,) = CounterPartition.objects.filter(entries=1)
        with pytest.raises(IntegrityError, match="django_counters_sealed"):
            execute(
                f"INSERT INTO {DELTAS} (token, created_at, key, delta) "
                "VALUES (gen_random_uuid(), %s, 'a', 1)",
                sealed.since,
            )

    def test_an_entry_that_was_numbered_before_is_refused(self) -> None:
        """An INSERT draws its number before it waits for the seal."""
        with narrow(HOUR, window=10 * HOUR):
            moment = clock.utc() - 9 * HOUR
            CounterDelta.objects.append("a", 20, token=mint(moment))
            ((drawn,),) = execute("SELECT nextval(%s)", SEQUENCE)
            CounterDelta.objects.append("a", 20, token=mint(moment))
            roll_up()
            know_tokens_for(HOUR)
            maintain(width=HOUR)
            (sealed,) = CounterPartition.objects.filter(entries=2)
            with pytest.raises(IntegrityError, match="django_counters_sealed"):
                execute(
                    f"INSERT INTO {DELTAS} (seq, token, created_at, key, delta) "
                    "VALUES (%s, gen_random_uuid(), %s, 'a', 1)",
                    drawn,
                    sealed.since,
                )


@pytest.mark.usefixtures("_restored")
class TestRestored:
    def test_a_rollup_refuses_and_changes_nothing(self) -> None:
        before = list(Counter.objects.using("restored").values())
        assert value() == 4321
        assert ledger.state("restored").fenced
        for _ in range(2):
            with pytest.raises(LedgerFenced, match="counters rebase"):
                rollup("restored")
        assert list(Counter.objects.using("restored").values()) == before
        assert value() == 4321
        (incident,) = CounterIncident.objects.using("restored").all()
        assert incident.kind == CounterIncident.Kind.FENCED

    def test_so_it_does_where_no_server_says_who_it_is(self) -> None:
        CounterHorizon.objects.using("restored").update(cluster=None)
        with pytest.raises(LedgerFenced):
            rollup("restored")
        assert value() == 4321

    def test_nothing_is_appended_that_nobody_would_see(self) -> None:
        assert_nothing_can_be_appended("restored")
        assert value() == 4321

    @pytest.mark.parametrize("entries", [True, False])
    def test_so_it_is_in_a_copy_of_tables_of_one_that_was_rebased(
        self, cluster: Mapping[str, Any], tmp_path: Path, entries: bool
    ) -> None:
        """Entries are numbered from 1 there, and what is not above the fence would not be read."""
        expected = 4321
        if not entries:
            execute(f"DELETE FROM {DELTAS}", using="restored")
            execute(f"SELECT setval('{SEQUENCE}', 1, false)", using="restored")
            expected = 21
        ledger.rebase("restored")
        with copied(str(tmp_path / "tables"), **cluster):
            assert_nothing_can_be_appended("copied")
            assert value("copied") == expected
            with pytest.raises(LedgerFenced):
                rollup("copied")
            ledger.rebase("copied")
            before, after = (
                CounterHorizon.objects.using(using).get().fence for using in ("restored", "copied")
            )
            # Positions of followers have the fence, and mean another server's transactions.
            assert after > before
            append(50_000, "copied")
            assert_exact(50_000 + expected, "copied")

    def test_after_a_rebase_usage_of_the_sequence_is_enough_to_append(self) -> None:
        ledger.rebase("restored")
        for right in ("SELECT, INSERT, UPDATE, DELETE ON ALL TABLES", "USAGE ON ALL SEQUENCES"):
            execute(f"GRANT {right} IN SCHEMA public TO pg_monitor", using="restored")
        execute("SET ROLE pg_monitor", using="restored")
        try:
            append(5, "restored")
        finally:
            execute("RESET ROLE", using="restored")
        assert value() == 4326

    def test_a_rebase_is_exact(self) -> None:
        ledger.rebase("restored")
        assert Counter.objects.using("restored").get(key="a").value == 4321
        assert ledger.state("restored").fenced == ""
        assert_exact(4321)
        append(50_000, "restored")
        assert value() == 54_321
        assert_exact(54_321)
        explained = Counter.objects.explain("a", using="restored")
        assert (explained.outside, explained.archived) == (1, 20)

    def test_on_a_server_whose_numbers_are_far_ahead(self) -> None:
        """Appends see nothing wrong there, and need not: the number of the server tells."""
        look_young()
        append(50_000, "restored")
        assert value() == 54_321
        with pytest.raises(LedgerFenced):
            rollup("restored")
        assert value() == 54_321
        ledger.rebase("restored")
        assert_exact(54_321)

    @pytest.mark.parametrize("ahead", [False, True])
    def test_a_transaction_that_began_before_the_rebase_and_appends_after_it(
        self, ahead: bool
    ) -> None:
        """Its number is smaller than that of the rebase, and its first entry is later."""
        if ahead:
            look_young()
        with transaction.atomic(using="beside"):
            execute("SELECT pg_current_xact_id()", using="beside")
            ledger.rebase("restored")
            begin_transactions(1_000, "restored")
            append(50_000, "beside")
            append(600_000, "restored")
            rollup("restored")
            assert value() == 604_321
        assert value() == 654_321
        assert_exact(654_321)

    def test_a_rebase_waits_for_writers_and_has_what_they_wrote(self) -> None:
        """Nobody writes while the totals are computed."""
        look_young()
        execute("SET lock_timeout = '100ms'", using="restored")
        with transaction.atomic(using="beside"):
            append(50_000, "beside")
            with pytest.raises(OperationalError, match="lock timeout"):
                ledger.rebase("restored")
        assert value() == 54_321
        ledger.rebase("restored")
        assert_exact(54_321)
