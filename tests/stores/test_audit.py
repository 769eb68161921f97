"""The database refuses to change or delete adjustments, whoever asks for it in whatever way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, connections, models, transaction

from django_counters.apps import prepare_database
from django_counters.models import CounterAdjustment
from django_counters.stores.sql import guard
from tests.chains import append, stored, unguarded

pytestmark = pytest.mark.django_db

TABLE = CounterAdjustment._meta.db_table
COLUMNS = [field.attname for field in CounterAdjustment._meta.concrete_fields]
LIST = ", ".join(f'"{name}"' for name in COLUMNS)
REFUSED = "adjustments are never changed or deleted"
NOT_NEXT = "an adjustment has the number after the last one"
# SQLite asks about the row before it knows of the conflict.
UPSERT = NOT_NEXT if connection.vendor == "sqlite" else REFUSED
rows = CounterAdjustment.objects

on_postgresql = pytest.mark.postgres
on_sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason=f"only SQLite has it; this is {connection.vendor}"
)


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement.format(TABLE))


def copies(number: str, where: str) -> str:
    """Rows that are there, under another number."""
    return f"SELECT {LIST.replace(chr(34) + 'number' + chr(34), number)} FROM {TABLE} WHERE {where}"


def insert(number: str, ending: str = "", verb: str = "INSERT") -> str:
    return f"{verb} INTO {TABLE} ({LIST}) {copies(number, 'number = 1')} {ending}"


def raw_save() -> None:
    """As ``loaddata`` saves."""
    rows.get(number=2).save_base(raw=True)


def bulk_update() -> None:
    row = rows.get(number=2)
    row.reason = "none"
    rows.bulk_update([row], ["reason"])


def upsert() -> None:
    row = rows.get(number=2)
    row.reason = "none"
    rows.bulk_create(
        [row], update_conflicts=True, unique_fields=["number"], update_fields=["reason"]
    )


BY_DJANGO: dict[str, Callable[[], object]] = {
    "update": lambda: rows.filter(number=2).update(reason="none"),
    "update_all": lambda: rows.update(reason="none"),
    "to_what_it_is": lambda: rows.filter(number=2).update(reason=models.F("reason")),
    "delete": lambda: rows.filter(number=2).delete(),
    "delete_all": lambda: rows.all().delete(),
    "bulk_update": bulk_update,
    "upsert": upsert,
    "save_base": raw_save,
}
BY_SQL = {
    "update": "UPDATE {0} SET reason = ''",
    "delete": "DELETE FROM {0} WHERE number = 2",
    "returning": "DELETE FROM {0} WHERE number = 2 RETURNING reason",
    "upsert": insert("1", "ON CONFLICT (number) DO UPDATE SET reason = ''"),
}
BY_POSTGRESQL = {
    "update of no row": "UPDATE {0} SET reason = '' WHERE false",
    "delete of no row": "DELETE FROM {0} WHERE false",
    "upsert without a conflict": insert("3", "ON CONFLICT (number) DO UPDATE SET reason = ''"),
    "truncate": "TRUNCATE {0}",
    "truncate cascade": "TRUNCATE {0} RESTART IDENTITY CASCADE",
    "cte": "WITH gone AS (DELETE FROM {0} RETURNING *) SELECT COUNT(*) FROM gone",
    "from": "UPDATE ONLY {0} t SET reason = '' FROM {0} o WHERE o.number = t.number",
    "view": "CREATE TEMP VIEW v AS SELECT * FROM {0}; UPDATE v SET reason = ''",
    "rule": (
        "CREATE TEMP TABLE mine (n int); CREATE RULE r AS ON INSERT TO mine DO ALSO "
        "DELETE FROM {0}; INSERT INTO mine VALUES (1)"
    ),
    "cursor": (
        "DECLARE c CURSOR FOR SELECT * FROM {0} FOR UPDATE; FETCH c; "
        "UPDATE {0} SET reason = '' WHERE CURRENT OF c"
    ),
    "block": "DO $$ BEGIN UPDATE {0} SET reason = ''; END $$",
}
MERGE = (
    "MERGE INTO {0} t USING (SELECT 2 AS number) s ON t.number = s.number "
    "WHEN MATCHED THEN UPDATE SET reason = ''"
)
BY_SQLITE = {
    "or ignore": "UPDATE OR IGNORE {0} SET reason = ''",
    "or replace": "UPDATE OR REPLACE {0} SET number = 1 WHERE number = 2",
}
# Not the number after the last one.
BY_NUMBER = {"again": "1", "gap": "4", "zero": "0"}


@pytest.fixture
def chain() -> list[tuple[Any, ...]]:
    """Two adjustments under the guard of a database that is in use."""
    guard.make("default", flushable=False)
    append(2)
    return stored()


def assert_refused(action: Callable[[], object], message: str = REFUSED) -> None:
    with pytest.raises(IntegrityError, match=message), transaction.atomic():
        action()


class TestGuard:
    @pytest.mark.parametrize("way", BY_DJANGO)
    def test_django_is_refused(self, chain: list[Any], way: str) -> None:
        assert_refused(BY_DJANGO[way], UPSERT if way == "upsert" else REFUSED)
        assert stored() == chain

    @pytest.mark.parametrize("way", BY_SQL)
    def test_sql_is_refused(self, chain: list[Any], way: str) -> None:
        assert_refused(lambda: execute(BY_SQL[way]), UPSERT if way == "upsert" else REFUSED)
        assert stored() == chain

    @on_postgresql
    @pytest.mark.parametrize("way", BY_POSTGRESQL)
    def test_postgresql_is_refused(self, chain: list[Any], way: str) -> None:
        assert_refused(lambda: execute(BY_POSTGRESQL[way]))
        assert stored() == chain

    @on_postgresql
    def test_merge_is_refused(self, chain: list[Any]) -> None:
        if getattr(connection, "pg_version", 0) < 150000:
            pytest.skip("MERGE came with PostgreSQL 15")
        assert_refused(lambda: execute(MERGE))
        assert stored() == chain

    @on_postgresql
    @pytest.mark.parametrize("way", ["UPDATE {} SET reason = ''", "DELETE FROM {}", "TRUNCATE {}"])
    def test_a_role_of_replication_changes_nothing(self, chain: list[Any], way: str) -> None:
        execute("SET LOCAL session_replication_role = replica")
        assert_refused(lambda: execute(way))
        assert stored() == chain

    @on_postgresql
    def test_a_table_that_inherits_is_guarded_by_row(self, chain: list[Any]) -> None:
        # A statement on the parent fires no statement triggers of its children.
        execute(
            "CREATE TABLE parent_of_adjustments (LIKE {0})",
            "ALTER TABLE {0} INHERIT parent_of_adjustments",
        )
        assert_refused(lambda: execute("UPDATE parent_of_adjustments SET reason = ''"))
        assert_refused(lambda: execute("DELETE FROM parent_of_adjustments"))
        assert stored() == chain

    @on_sqlite
    @pytest.mark.parametrize("way", BY_SQLITE)
    def test_sqlite_is_refused(self, chain: list[Any], way: str) -> None:
        assert_refused(lambda: execute(BY_SQLITE[way]))
        assert stored() == chain

    @on_sqlite
    def test_sqlite_replaces_nothing(self, chain: list[Any]) -> None:
        assert_refused(lambda: execute(insert("1", verb="REPLACE")), NOT_NEXT)
        by_rowid = (
            f"REPLACE INTO {TABLE} (rowid, {LIST}) SELECT 1, * FROM ({copies('3', 'number = 1')})"
        )
        assert_refused(lambda: execute(by_rowid), NOT_NEXT)
        assert stored() == chain

    @pytest.mark.parametrize("number", BY_NUMBER.values(), ids=BY_NUMBER)
    @pytest.mark.parametrize("ending", ["", "ON CONFLICT DO NOTHING"])
    def test_a_number_is_the_one_after_the_last(
        self, chain: list[Any], number: str, ending: str
    ) -> None:
        assert_refused(lambda: execute(insert(number, ending)), NOT_NEXT)
        assert stored() == chain

    def test_several_at_once_are_taken_in_order(self, chain: list[Any]) -> None:
        execute(f"INSERT INTO {{}} ({LIST}) {copies('number + 2', 'true')} ORDER BY number")
        assert [row[0] for row in stored()] == [1, 2, 3, 4]

    def test_the_model_refuses_first(self, chain: list[Any]) -> None:
        row = rows.get(number=2)
        for refused in (row.save, row.delete):
            with pytest.raises(TypeError, match="Adjustments"):
                refused()
        assert stored() == chain


class TestFlushing:
    def empty(self) -> None:
        flushed = connection.vendor == "postgresql"
        execute("TRUNCATE {}" if flushed else "DELETE FROM {}")

    def test_a_database_in_use_keeps_what_it_has(self, chain: list[Any]) -> None:
        assert_refused(self.empty)
        assert stored() == chain

    def test_an_empty_table_can_be_emptied(self) -> None:
        guard.make("default", flushable=False)
        self.empty()
        append()
        assert len(stored()) == 1

    @pytest.mark.django_db(transaction=True)
    def test_a_test_database_can_be_flushed_and_nothing_else(self) -> None:
        append(2)
        assert_refused(lambda: rows.update(reason=""))
        call_command("flush", interactive=False, verbosity=0)
        assert stored() == []
        append()
        assert [row[0] for row in stored()] == [1]


class TestMaking:
    def test_the_migrations_have_made_it(self) -> None:
        assert guard.state("default") == guard.FLUSHABLE == guard.wanted_state("default")

    def test_a_guard_of_the_tests_is_put_back(self) -> None:
        with unguarded():
            assert guard.state("default") == guard.MISSING
        assert guard.state("default") == guard.FLUSHABLE

    def test_it_is_made_again_after_migrate(self) -> None:
        guard.remove("default")
        assert guard.state("default") == guard.MISSING
        prepare_database("default")
        assert guard.state("default") == guard.FLUSHABLE

    @on_postgresql
    @pytest.mark.django_db(transaction=True)
    def test_the_migration_takes_it_away_as_a_whole(self) -> None:
        left = "SELECT proname FROM pg_proc WHERE proname LIKE 'django_counters_guard%'"
        with connection.cursor() as cursor:
            cursor.execute(left)
            assert len(cursor.fetchall()) == 2
            try:
                call_command("migrate", "django_counters", "0004", verbosity=0)
                cursor.execute(left)
                assert cursor.fetchall() == []
            finally:
                call_command("migrate", "django_counters", verbosity=0)
        assert guard.state("default") == guard.FLUSHABLE

    @pytest.mark.parametrize("flushable", [True, False])
    def test_it_is_made_as_somebody_wants_it(self, flushable: bool) -> None:
        guard.make("default", flushable=flushable)
        assert guard.state("default") == (guard.FLUSHABLE if flushable else guard.STRICT)
        guard.make("default")
        assert guard.state("default") == guard.FLUSHABLE

    def test_what_is_left_of_it_is_made_whole(self) -> None:
        suffix = f" ON {TABLE}" if connection.vendor == "postgresql" else ""
        names = list(guard.present("default"))
        assert len(names) in (2, 3)
        for name in names:
            execute(f"DROP TRIGGER {name}{suffix}")
            assert guard.state("default") == guard.LOOSE
            guard.make("default")
            assert guard.state("default") == guard.FLUSHABLE

    def test_where_it_is_whole_nothing_is_made(self) -> None:
        seen: list[str] = []

        def note(run: Callable[..., Any], sql: str, *rest: Any) -> Any:
            seen.append(sql.split()[0])
            return run(sql, *rest)

        with connection.execute_wrapper(note):
            guard.make("default")
        assert set(seen) == {"SELECT"}

    def test_without_the_table_there_is_nothing_to_guard(self) -> None:
        execute(f"ALTER TABLE {TABLE} RENAME TO elsewhere")
        guard.make("default")
        assert guard.state("default") == guard.MISSING

    @pytest.mark.parametrize(
        ("name", "test_name", "wanted"),
        [
            ("shop", None, guard.STRICT),
            ("shop", "other", guard.STRICT),
            ("latest_shop", None, guard.STRICT),
            ("test_shop", None, guard.FLUSHABLE),
            ("ci", "ci", guard.FLUSHABLE),
        ],
    )
    def test_a_test_database_is_known_by_its_name(
        self, name: str, test_name: str | None, wanted: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings = connections["default"].settings_dict
        changed = {**settings, "NAME": name, "TEST": {**settings["TEST"], "NAME": test_name}}
        monkeypatch.setattr(connections["default"], "settings_dict", changed)
        assert guard.wanted_state("default") == wanted

    @on_sqlite
    @pytest.mark.parametrize("name", [":memory:", "file:any?mode=memory&cache=shared"])
    def test_so_is_one_in_memory(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        changed = {**connection.settings_dict, "NAME": name}
        monkeypatch.setattr(connections["default"], "settings_dict", changed)
        assert guard.wanted_state("default") == guard.FLUSHABLE
