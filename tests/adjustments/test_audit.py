"""Nobody changes or deletes adjustments, in whatever way; each has the digest of the one before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, connections, models, transaction
from django.test import override_settings

from django_counters.adjustments import guard
from django_counters.adjustments.audit import verify_audit
from django_counters.adjustments.sql import digest_of, holds
from django_counters.apps import prepare_database
from django_counters.models import Counter, CounterAdjustment
from tests.chains import _guarded, append, stored  # noqa: F401 - a fixture
from tests.schemas import changes_schema, renamed

pytestmark = [changes_schema, pytest.mark.usefixtures("guarded")]

TABLE = CounterAdjustment._meta.db_table
COLUMNS = [field.attname for field in CounterAdjustment._meta.concrete_fields]
LIST = ", ".join(map(connection.ops.quote_name, COLUMNS))
NUMBER = connection.ops.quote_name("number")
REFUSED = "adjustments are never changed or deleted"
NOT_NEXT = "an adjustment has the number after the last one"
# Others ask about the row before they know of the conflict.
UPSERT = REFUSED if connection.vendor == "postgresql" else NOT_NEXT
rows = CounterAdjustment.objects

on_postgresql = pytest.mark.postgresql
on_mysql = pytest.mark.skipif(
    connection.vendor != "mysql", reason=f"only MySQL has it; this is {connection.vendor}"
)
on_sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason=f"only SQLite has it; this is {connection.vendor}"
)


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement.format(TABLE))


def copies(number: str, where: str) -> str:
    """Rows that are there, under another number."""
    return f"SELECT {LIST.replace(NUMBER, number)} FROM {TABLE} WHERE {where}"


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
    unique = ["number"] if connection.features.supports_update_conflicts_with_target else None
    rows.bulk_create([row], update_conflicts=True, unique_fields=unique, update_fields=["reason"])


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
# How a conflict is passed over, and how it becomes an update.
PASSED_OVER = (
    {"verb": "INSERT IGNORE"}
    if connection.vendor == "mysql"
    else {"ending": "ON CONFLICT DO NOTHING"}
)
ON_CONFLICT = (
    "ON DUPLICATE KEY UPDATE reason = ''"
    if connection.vendor == "mysql"
    else "ON CONFLICT (number) DO UPDATE SET reason = ''"
)
BY_SQL = {
    "update": "UPDATE {0} SET reason = ''",
    "delete": "DELETE FROM {0} WHERE number = 2",
    "returning": "DELETE FROM {0} WHERE number = 2 RETURNING reason",
    "upsert": insert("1", ON_CONFLICT),
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
BY_MYSQL = {
    "ignore": "UPDATE IGNORE {0} SET reason = ''",
    "delete ignore": "DELETE IGNORE FROM {0}",
    "join": "UPDATE {0} t JOIN (SELECT 2 AS number) s ON t.number = s.number SET t.reason = ''",
    "delete of a join": "DELETE t FROM {0} t JOIN {0} o ON o.number = t.number",
}
BY_SQLITE = {
    "or ignore": "UPDATE OR IGNORE {0} SET reason = ''",
    "or replace": "UPDATE OR REPLACE {0} SET number = 1 WHERE number = 2",
}


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
    def test_django_and_sql_are_refused(self, chain: list[Any]) -> None:
        for way, action in BY_DJANGO.items():
            assert_refused(action, UPSERT if way == "upsert" else REFUSED)
        for way, statement in BY_SQL.items():
            assert_refused(partial(execute, statement), UPSERT if way == "upsert" else REFUSED)
        assert stored() == chain

    @on_postgresql
    @pytest.mark.parametrize("role", ["origin", "replica"])
    def test_postgresql_is_refused(self, chain: list[Any], role: str) -> None:
        execute(f"SET LOCAL session_replication_role = {role}")
        ways = BY_SQL | BY_POSTGRESQL
        if getattr(connection, "pg_version", 0) >= 150000:
            ways["merge"] = MERGE
        if role == "replica":
            # There it is no way: rules are off.
            del ways["rule"]
        for statement in ways.values():
            assert_refused(partial(execute, statement))
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
    def test_sqlite_is_refused(self, chain: list[Any]) -> None:
        for statement in BY_SQLITE.values():
            assert_refused(partial(execute, statement))
        assert_refused(lambda: execute(insert("1", verb="REPLACE")), NOT_NEXT)
        by_rowid = (
            f"REPLACE INTO {TABLE} (rowid, {LIST}) SELECT 1, * FROM ({copies('3', 'number = 1')})"
        )
        assert_refused(lambda: execute(by_rowid), NOT_NEXT)
        assert stored() == chain

    @on_mysql
    def test_mysql_is_refused(self, chain: list[Any]) -> None:
        for statement in BY_MYSQL.values():
            assert_refused(partial(execute, statement))
        assert_refused(lambda: execute(insert("1", verb="REPLACE")), NOT_NEXT)
        assert stored() == chain

    @pytest.mark.parametrize("how", [{}, PASSED_OVER])
    def test_a_number_is_the_one_after_the_last(
        self, chain: list[Any], how: dict[str, str]
    ) -> None:
        for number in ("0", "1", "4"):
            assert_refused(partial(execute, insert(number, **how)), NOT_NEXT)
        assert stored() == chain

    def test_several_at_once_are_taken_in_order(self, chain: list[Any]) -> None:
        execute(f"INSERT INTO {{}} ({LIST}) {copies('number + 2', 'true')} ORDER BY number")
        assert [row[0] for row in stored()] == [1, 2, 3, 4]

    def test_the_model_refuses_first(self, chain: list[Any]) -> None:
        row = rows.get(number=2)
        for refused in (row.save, row.delete):
            with pytest.raises(TypeError, match="An adjustment"):
                refused()
        assert stored() == chain


class TestFlushing:
    def empty(self) -> None:
        flushed = connection.vendor == "postgresql"
        execute("TRUNCATE {}" if flushed else "DELETE FROM {}")

    def test_a_database_in_use_keeps_what_it_has(self, chain: list[Any]) -> None:
        assert_refused(self.empty)
        assert stored() == chain
        if connection.vendor == "postgresql":
            with pytest.raises(IntegrityError, match="drop it and migrate again"):
                self.empty()

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


class TestLoading:
    def test_a_dump_is_loaded_into_an_empty_table_and_nowhere_else(self, tmp_path: Path) -> None:
        for to in (5, 3, 9):
            Counter.objects.adjust("stock:tea", to=to, reason="counted by hand", actor="ann")
        assert not verify_audit().flaws
        chain, dump = stored(), str(tmp_path / "dump.json")
        call_command("dumpdata", "django_counters", output=dump, verbosity=0)
        guard.remove("default")
        rows.all().delete()
        guard.make("default", flushable=False)
        call_command("loaddata", dump, verbosity=0)
        assert stored() == chain
        assert not verify_audit().flaws
        with pytest.raises(IntegrityError, match=REFUSED), transaction.atomic():
            call_command("loaddata", dump, verbosity=0)
        Counter.objects.adjust("stock:tea", to=4, expected=9, reason="once more", actor="ann")
        assert stored()[:-1] == chain
        assert not verify_audit().flaws


class TestMaking:
    def test_it_is_made_again_after_migrate(self) -> None:
        assert guard.state("default") == guard.FLUSHABLE == guard.wanted_state("default")
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
                call_command("migrate", "django_counters", "zero", verbosity=0)
                cursor.execute(left)
                assert cursor.fetchall() == []
            finally:
                # Those of other apps that build on it have gone with it.
                call_command("migrate", verbosity=0)
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

    def test_without_the_table_there_is_nothing_to_guard(self) -> None:
        with renamed(TABLE):
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
        with monkeypatch.context() as patch:
            patch.setattr(connections["default"], "settings_dict", changed)
            assert guard.wanted_state("default") == wanted

    @on_sqlite
    @pytest.mark.parametrize("name", [":memory:", "file:any?mode=memory&cache=shared"])
    def test_so_is_one_in_memory(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        changed = {**connection.settings_dict, "NAME": name}
        monkeypatch.setattr(connections["default"], "settings_dict", changed)
        assert guard.wanted_state("default") == guard.FLUSHABLE


# The digest of an adjustment: of all its columns, and of the one before.
def naive(fold: int) -> CounterAdjustment:
    """Made at half past two, in the night in which that comes twice."""
    row = CounterAdjustment(number=1, before=0, after=1, delta=1)
    row.created_at = datetime(2026, 10, 25, 2, 30, 0, 17, fold=fold)  # noqa: DTZ001
    row.digest = digest_of("", row)
    row.created_at = row.created_at.replace(fold=0)
    return row


def test_it_is_that_of_the_previous_one_and_of_all_columns() -> None:
    append(2)
    first, second = rows.order_by("number")
    values = {name: getattr(second, name) for name in COLUMNS if name != "digest"}
    values["entry"] = str(second.entry)
    values["created_at"] = second.created_at.isoformat(timespec="microseconds")
    text = json.dumps([1, first.digest, values], sort_keys=True, separators=(",", ":"))
    assert second.digest == hashlib.sha256(text.encode()).hexdigest()


def test_it_holds_for_what_is_read_back() -> None:
    append(reason="ünï\u2028 '\"\\ \t", entry=None, before=-(2**63), after=2**63 - 1, delta=0)
    row = rows.get()
    assert holds("", row)
    assert not holds("0" * 64, row)


@pytest.mark.parametrize("fold", [0, 1])
def test_an_hour_that_comes_twice(fold: int) -> None:
    with override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin"):
        assert naive(0).digest != naive(1).digest
        row = naive(fold)
        assert holds("", row)
        row.created_at += timedelta(microseconds=1)
        assert not holds("", row)
