"""The server that the slow cases run on, and pgbench on a real one."""

from __future__ import annotations

import psycopg
import pytest

from benchmarks import pgbench
from benchmarks.inspection import statement_of
from django_counters.models import Counter
from example_project.bootstrap.services import services


@pytest.mark.parametrize(("durable", "fsync"), [(True, "on"), (False, "off")])
def test_commits_wait_where_they_are_asked_to(
    durable: bool, fsync: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with (
        services(want=("postgres",), quiet=True, durable=durable) as urls,
        psycopg.connect(urls.database) as server,
    ):
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert server.execute(f"SHOW {setting}").fetchone() == (fsync,)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_what_pgbench_reports_is_what_is_stored() -> None:
    try:
        pgbench.find()
    except pgbench.PgbenchFailed as error:
        pytest.skip(str(error))
    key = "likes:it's"
    sent = pgbench.written_out(*statement_of(lambda: Counter.objects.increment(key)))
    sample = pgbench.side(f"BEGIN;\n{sent}\nCOMMIT;", clients=2)()
    assert sample.operations > 0
    assert Counter.objects.value(key) == 1 + sample.operations


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_slices_of_less_than_a_second_have_as_many_transactions_as_the_first_one_tells() -> None:
    try:
        pgbench.find()
    except pgbench.PgbenchFailed as error:
        pytest.skip(str(error))
    sent = pgbench.written_out(*statement_of(lambda: Counter.objects.increment("short")))
    side = pgbench.side(sent, clients=2, seconds=0.1)
    first, second, third = side(), side(), side()
    assert second.operations == third.operations == 2 * max(1, round(0.05 / first.cost))
    total = first.operations + second.operations + third.operations
    assert Counter.objects.value("short") == 1 + total


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_statement_that_fails_is_not_a_figure() -> None:
    try:
        pgbench.find()
    except pgbench.PgbenchFailed as error:
        pytest.skip(str(error))
    with pytest.raises(pgbench.PgbenchFailed, match="division by zero"):
        pgbench.side("SELECT 1 / 0;", clients=1)()


def test_without_pgbench_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJC_SERVICES", "wheels")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("example_project.bootstrap.binaries.package_folders", lambda name: iter(()))
    with pytest.raises(pgbench.PgbenchFailed, match="apt install postgresql-contrib"):
        pgbench.find()
