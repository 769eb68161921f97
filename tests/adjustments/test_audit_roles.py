"""What a role can do to the adjustments: one of the application, and the owner of the table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.db import ProgrammingError, connection, transaction

from django_counters.adjustments import guard
from django_counters.adjustments.audit import CHANGED, Flaw, verify_audit
from django_counters.models import CounterAdjustment
from tests.adjustments.test_audit import (
    BY_DJANGO,
    BY_POSTGRESQL,
    BY_SQL,
    assert_refused,
    execute,
    insert,
)
from tests.chains import append, stored

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]

TABLE = CounterAdjustment._meta.db_table
OWNER, APP = "counters_test_owner", "counters_test_app"
EMPTY = "CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS {}"
HARMLESS = EMPTY.format("django_counters_guard", "'BEGIN RETURN NULL; END'")
BY_ROW = EMPTY.format("harmless", "'BEGIN RETURN NEW; END'")
# What Django, and SQL that is plain, can do about rows.
ROWS = {**BY_SQL, **BY_POSTGRESQL}
REPLACE = "replace trigger"
# What only the owner of a table may do; the one that is named, whoever may make triggers, too.
TABLES = {
    "disable": "ALTER TABLE {} DISABLE TRIGGER ALL",
    "disable user": "ALTER TABLE {} DISABLE TRIGGER USER",
    "enable replica": "ALTER TABLE {} ENABLE REPLICA TRIGGER django_counters_guard_statement",
    "drop trigger": "DROP TRIGGER django_counters_guard_statement ON {}",
    REPLACE: (
        f"{BY_ROW}; CREATE OR REPLACE TRIGGER django_counters_guard_row BEFORE UPDATE OR DELETE "
        "ON {} FOR EACH ROW EXECUTE FUNCTION harmless()"
    ),
    "replace function": HARMLESS,
    "alter function": "ALTER FUNCTION django_counters_guard() SET search_path = public",
    "drop function": "DROP FUNCTION django_counters_guard() CASCADE",
}
LOOKS_THE_SAME = {
    "rewrite": "ALTER TABLE {} ALTER COLUMN reason TYPE text USING ''",
    "rename": "ALTER TABLE {} RENAME TO gone",
    "drop": "DROP TABLE {}",
    "rule": "CREATE RULE r AS ON UPDATE TO {} DO INSTEAD NOTHING",
    "owner": f"ALTER TABLE {{}} OWNER TO {APP}",
}
SERVER = {
    "replica": "SET session_replication_role = replica",
    "catalogue": "UPDATE pg_trigger SET tgenabled = 'D' WHERE tgrelid = '{}'::regclass",
}
LOOSENING = {**TABLES, **LOOKS_THE_SAME, **SERVER}


@pytest.fixture
def owned() -> list[tuple[Any, ...]]:
    """Two adjustments in a table whose owner is no superuser."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        if cursor.fetchone() != (True,):
            pytest.skip("the user of the tests may not create roles")
    guard.make("default", flushable=False)
    append(2)
    # All of it ends with the transaction of the test.
    execute(
        f"CREATE ROLE {OWNER}",
        f"CREATE ROLE {APP}",
        f"GRANT CREATE ON SCHEMA public TO {OWNER}, {APP}",
        f"ALTER TABLE {{}} OWNER TO {OWNER}",
        f"ALTER FUNCTION django_counters_guard() OWNER TO {OWNER}",
        f"ALTER FUNCTION django_counters_guard_next() OWNER TO {OWNER}",
        # Where incidents are found, they are written down.
        f"GRANT SELECT, INSERT ON django_counters_counterincident TO {OWNER}, {APP}",
        # Where the head is kept, and what adjustments and approved requests have left.
        f"GRANT SELECT, INSERT, DELETE ON django_counters_counter TO {OWNER}, {APP}",
        f"GRANT SELECT ON django_counters_adjustmentrequest TO {OWNER}, {APP}",
        f"GRANT SELECT ON django_counters_counterdelta TO {OWNER}, {APP}",
    )
    return stored()


@pytest.fixture
def app(owned: list[Any]) -> Iterator[list[Any]]:
    """As the application, with the rights that it needs."""
    execute(f"GRANT SELECT, INSERT ON {{}} TO {APP}", f"SET LOCAL ROLE {APP}")
    yield owned
    execute("RESET ROLE")


@pytest.fixture
def careless(owned: list[Any]) -> Iterator[list[Any]]:
    """As the application, after a ``GRANT ALL``."""
    execute(f"GRANT ALL ON {{}} TO {APP}", f"SET LOCAL ROLE {APP}")
    yield owned
    execute("RESET ROLE")


@pytest.fixture
def owner(owned: list[Any]) -> Iterator[list[Any]]:
    """As the only role of a project that has one for everything."""
    execute(f"SET LOCAL ROLE {OWNER}")
    yield owned
    execute("RESET ROLE")


def assert_forbidden(statement: str) -> None:
    forbidden = "permission denied|must be owner|must be able to SET ROLE"
    with pytest.raises(ProgrammingError, match=forbidden), transaction.atomic():
        execute(statement)


class TestApplication:
    def test_it_writes_and_reads_what_it_has_to(self, app: list[Any]) -> None:
        append()
        assert stored()[:2] == app
        assert verify_audit().checked == 3

    def test_it_has_no_right_to_change_rows_or_to_loosen_the_guard(self, app: list[Any]) -> None:
        for statement in (*ROWS.values(), *LOOSENING.values()):
            assert_forbidden(statement)
        assert guard.state("default") == guard.STRICT
        assert stored() == app

    def test_a_table_of_its_own_does_not_mislead_the_guard(self, app: list[Any]) -> None:
        execute(
            f"CREATE TEMP TABLE {TABLE} (number bigint)",
            f"INSERT INTO pg_temp.{TABLE} VALUES (8)",
        )
        gap = insert("9").replace(TABLE, f"public.{TABLE}")
        assert_refused(lambda: execute(gap), "has the number after the last one")
        execute(f"DROP TABLE pg_temp.{TABLE}")
        assert stored() == app


class TestApplicationWithAllRights:
    def test_the_guard_refuses(self, careless: list[Any]) -> None:
        for statement in ROWS.values():
            assert_refused(partial(execute, statement))
        for action in BY_DJANGO.values():
            assert_refused(action)
        assert stored() == careless

    def test_it_cannot_loosen_the_guard(self, careless: list[Any]) -> None:
        for way in sorted(LOOSENING.keys() - {REPLACE}):
            assert_forbidden(LOOSENING[way])
        assert guard.state("default") == guard.STRICT
        assert stored() == careless

    def test_the_right_to_make_triggers_is_too_much(self, careless: list[Any]) -> None:
        execute(TABLES[REPLACE])
        assert guard.state("default") == guard.LOOSE


class TestOwner:
    """In a project with one role, the guard keeps mistakes away, and nobody who means it."""

    def test_rows_are_guarded(self, owner: list[Any]) -> None:
        assert_forbidden(SERVER["replica"])
        for statement in ROWS.values():
            assert_refused(partial(execute, statement))
        assert stored() == owner

    def test_a_loose_guard_is_seen_and_made_again(self, owner: list[Any]) -> None:
        for statement in TABLES.values():
            execute(statement)
            assert guard.state("default") == guard.LOOSE
            guard.make("default", flushable=False)
            assert guard.state("default") == guard.STRICT
            assert_refused(lambda: execute("TRUNCATE {}"))
        assert stored() == owner

    def test_what_was_rewritten_is_found(self, owner: list[Any]) -> None:
        execute(LOOKS_THE_SAME["rewrite"])
        assert guard.state("default") == guard.STRICT
        assert verify_audit().flaws == [Flaw(1, 2, CHANGED)]
