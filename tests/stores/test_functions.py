"""The functions inside PostgreSQL are put there again where they are gone or of another version."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from django_counters.models import Counter, SlottedCounter
from django_counters.stores.sql.dialects.postgresql.functions import install
from tests.concurrency.crowd import PATIENCE, Threads
from tests.stores.test_failures import wait_for_lock
from tests.testapp.models import Song

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]
# Not those of the guard, which its migration makes.
OURS = "proname LIKE 'django\\_counters\\_%' AND proname NOT LIKE '%guard%'"


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def functions() -> list[tuple[str, str]]:
    """Our functions with their arguments, and what they return."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT oid::regprocedure::text, pg_get_function_result(oid) FROM pg_proc "
            f"WHERE {OURS} ORDER BY 1"
        )
        found: list[tuple[str, str]] = cursor.fetchall()
    return found


@pytest.fixture(autouse=True)
def _left_as_they_were() -> Iterator[None]:
    before = functions()
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT oid::regprocedure::text FROM pg_proc WHERE {OURS}")
        execute(*(f"DROP FUNCTION {name}" for (name,) in cursor.fetchall()))
    install("default")
    assert functions() == before


@pytest.mark.parametrize("missing", ["django_counters_slot", "all"])
def test_two_at_once(missing: str) -> None:
    """Both find that they are missing; what the first one makes the second one finds."""
    before = functions()
    names = [name for name, _ in before] if missing == "all" else [missing]
    execute(*(f"DROP FUNCTION {name}" for name in names))
    assert functions() != before
    made = threading.Event()

    def work(number: int) -> None:
        if number:
            assert made.wait(PATIENCE)
            return install("default")
        with transaction.atomic():
            install("default")
            made.set()
            # Not yet committed: the other one still finds nothing.
            wait_for_lock()
        return None

    Threads(2).run(work)
    assert functions() == before
    assert Song.objects.create().plays.increment() == 1


def test_one_that_returns_another_type_is_replaced() -> None:
    before = functions()
    execute(
        "DROP FUNCTION django_counters_add(bigint, bigint, text)",
        "CREATE FUNCTION django_counters_add(d bigint, bound bigint, k text) RETURNS text "
        "LANGUAGE sql AS 'SELECT k'",
        "COMMENT ON FUNCTION django_counters_slot IS NULL",
    )
    assert functions() != before
    install("default")
    assert functions() == before
    assert Counter.objects.increment("a") == 1


def test_one_with_other_arguments_goes() -> None:
    before = functions()
    execute(
        "CREATE FUNCTION django_counters_slot(d bigint) RETURNS bigint LANGUAGE sql AS 'SELECT d'",
        "COMMENT ON FUNCTION django_counters_slot("
        "bigint, int, int, text, text, bigint, bigint, bigint) IS 'another version'",
    )
    install("default")
    assert functions() == before
    assert SlottedCounter.objects.increment(Song.objects.create(), "downloads") == 1
