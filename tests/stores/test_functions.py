"""The functions inside PostgreSQL are put there again where they are gone or of another version."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from django_counters.errors import FunctionDenied
from django_counters.models import Counter, SlottedCounter
from django_counters.stores.sql.dialects.postgresql.functions import install
from django_counters.testing import override_counters
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


@pytest.mark.rare
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
    )
    assert functions() != before
    install("default")
    assert functions() == before
    assert Counter.objects.increment("a") == 1


def test_one_with_other_arguments_goes() -> None:
    before = functions()
    execute(
        "CREATE FUNCTION django_counters_slot(d bigint) RETURNS bigint LANGUAGE sql AS 'SELECT d'",
    )
    install("default")
    assert functions() == before
    assert SlottedCounter.objects.increment(Song.objects.create(), "downloads") == 1


def test_grants_stay_when_functions_are_made_again() -> None:
    role, add = "counters_teller", "django_counters_add(bigint, bigint, text)"
    tail, read = "django_counters_tail(text)", "django_counters_read(text)"
    execute(
        f"DROP ROLE IF EXISTS {role}",
        f"CREATE ROLE {role}",
        f"REVOKE EXECUTE ON FUNCTION {add} FROM PUBLIC",
        f"GRANT EXECUTE ON FUNCTION {add} TO {role} WITH GRANT OPTION",
        f"REVOKE EXECUTE ON FUNCTION {tail} FROM PUBLIC",
        *(f"COMMENT ON FUNCTION {name} IS 'of another version'" for name in (add, tail, read)),
    )
    try:
        before = [rights(name) for name in (add, tail, read)]
        install("default")
        assert [rights(name) for name in (add, tail, read)] == before
        assert Counter.objects.increment("a") == 1
    finally:
        execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def rights(function: str) -> list[str]:
    """Who may execute a function. Without any there would be a line about the owner, too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT unnest(COALESCE(proacl, acldefault('f', proowner)))::text FROM pg_proc "
            "WHERE oid = to_regprocedure(%s) ORDER BY 1",
            [function],
        )
        return [right for (right,) in cursor.fetchall()]


@pytest.mark.parametrize("dropped", ["django_counters_add", "django_counters_shard"])
def test_migrate_restores_one_that_was_dropped(dropped: str) -> None:
    before = functions()
    execute(f"DROP FUNCTION {dropped}")
    call_command("migrate", verbosity=0)
    assert functions() == before
    with connection.cursor() as cursor:
        numbers = f"SELECT array_agg(oid::bigint ORDER BY oid) FROM pg_proc WHERE {OURS}"
        cursor.execute(numbers)
        (made,) = cursor.fetchone()
        # Nothing is missing now, so nothing is made again.
        install("default")
        cursor.execute(numbers)
        assert cursor.fetchone() == (made,)


def test_a_role_that_may_not_execute_them_is_told_which() -> None:
    role = "counters_stranger"
    execute(
        f"DROP ROLE IF EXISTS {role}",
        f"CREATE ROLE {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
        "REVOKE EXECUTE ON FUNCTION django_counters_add(bigint, bigint, text) FROM PUBLIC",
        f"SET ROLE {role}",
    )
    try:
        with pytest.raises(FunctionDenied, match=r"may not execute django_counters_add\(\)"):
            Counter.objects.increment("a")
    finally:
        execute("RESET ROLE", f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_role_without_rights_on_the_sequence_counts_new_counters() -> None:
    role, sold = "counters_seller", {"STRATEGY": "sharded", "FLOOR": 0}
    with override_counters(hits={"STRATEGY": "sharded"}, sold=sold):
        execute(
            f"DROP ROLE IF EXISTS {role}",
            f"CREATE ROLE {role}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
            f"SET ROLE {role}",
        )
        try:
            counters = Counter.objects
            assert [counters.increment(f"{name}:b") for name in ("a", "hits", "sold")] == [1, 1, 1]
            assert counters.increment_many({"a:c": 2, "hits:c": 2}) == {"a:c": 2, "hits:c": 2}
            assert counters.decrement("sold:b") == 0
            assert counters.value("hits:d") == 0
            assert counters.values_of(["a:b", "a:d"]) == {"a:b": 1, "a:d": 0}
        finally:
            execute("RESET ROLE", f"DROP OWNED BY {role}", f"DROP ROLE {role}")
