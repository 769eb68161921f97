"""What MySQL and MariaDB do in their own way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.db.transaction import TransactionManagementError

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.contrib.series.recording import record_history
from django_counters.errors import InvalidConfiguration
from django_counters.ledger.upkeep import State, maintain, state
from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.stores.base import Move
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.positions import Moved, SqlPositions
from django_counters.stores.sql.session import Session
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint
from django_counters.types import INT8
from django_counters.upkeep import rollup, verify
from tests.testapp.models import Device, Gadget

pytestmark = pytest.mark.skipif(
    connection.vendor != "mysql", reason=f"is about MySQL; this run is on {connection.vendor}"
)


@pytest.mark.django_db
def test_keys_are_compared_byte_by_byte() -> None:
    keys = ["a", "A", "á", "à"]
    for number, key in enumerate(keys, 1):
        assert Counter.objects.increment(key, number) == number
    assert Counter.objects.values_of(keys) == dict(zip(keys, range(1, 5), strict=True))


@pytest.fixture
def latin_database() -> Iterator[None]:
    """The database of the test, as those made with another character set are."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT DATABASE(), @@character_set_database, @@collation_database")
        name, characters, collation = cursor.fetchone()
        alter = f"ALTER DATABASE {connection.ops.quote_name(name)} CHARACTER SET"
        cursor.execute(f"{alter} latin1")
        try:
            yield
        finally:
            cursor.execute(f"{alter} {characters} COLLATE {collation}")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("strategy", ["exact", "sharded"])
@pytest.mark.usefixtures("latin_database")
def test_keys_have_any_characters_in_a_database_of_few(strategy: str) -> None:
    counts = {"page:日本": 1, "page:中国": 2}
    with override_counters(page={"STRATEGY": strategy}):
        Counter.objects.increment_many(counts)
        Counter.objects.increment("page:日本", 2, token="日")
        assert Counter.objects.values_of(counts) == {"page:日本": 3, "page:中国": 2}
        rollup()
        assert dict(Counter.objects.values_list("key", "value")) == {"page:日本": 3, "page:中国": 2}
        assert_counts({"page:日本": 3, "page:中国": 2})


@pytest.mark.django_db
@pytest.mark.parametrize("number", [*INT8, -7, 7])
def test_a_number_of_any_sign_comes_back(number: int) -> None:
    """LAST_INSERT_ID has no sign."""
    step = 1 if number > 0 else -1
    assert Counter.objects.increment("a", number - step) == number - step
    assert Counter.objects.increment("a", step) == number
    assert Counter.objects.increment_many({"a": -step}) == {"a": number - step}


@pytest.mark.rare
@pytest.mark.django_db(transaction=True)
def test_a_block_that_was_taken_back_cannot_go_on() -> None:
    """After a deadlock the server has forgotten the block; what follows must not be committed."""
    Counter.objects.increment_many({"a": 1, "b": 1})
    met, found = Barrier(2, timeout=30), []

    def count(first: str, second: str) -> None:
        try:
            with transaction.atomic():
                Counter.objects.increment(first, 10)
                met.wait()
                try:
                    Counter.objects.increment(second, 10)
                except OperationalError:
                    with pytest.raises(TransactionManagementError):
                        Counter.objects.increment("c")
                    found.append(first)
        finally:
            connections.close_all()

    threads = [Thread(target=count, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
    assert_counts({"a": 11, "b": 11, "c": 0})


@pytest.mark.django_db
def test_a_number_that_does_not_fit_is_told_as_that() -> None:
    """Django raises an error of its own for it, which does not name that of the driver."""
    with pytest.raises(IntegrityError) as found, transaction.atomic():
        Session("default").run(f"SELECT {INT8[1]} + 1", ())
    assert found.value.__cause__ is None
    assert dialect_of("default").overflowed(found.value)


@pytest.mark.parametrize("number", [1205, 1206, 1213])
def test_errors_that_end_the_whole_transaction(number: int) -> None:
    error = OperationalError(number, "as the server says")
    assert dialect_of("default").ended_transaction(error) is (number != 1205)


@pytest.mark.django_db
@pytest.mark.parametrize("other", ["A", "a ", "á"])
def test_places_are_compared_byte_by_byte(other: str) -> None:
    positions = SqlPositions("default")
    with transaction.atomic():
        positions.move([Move("s", "0", "", "a", "é")])
        with pytest.raises(Moved), transaction.atomic():
            positions.move([Move("s", "0", other, "b", "é")])
        with pytest.raises(Moved), transaction.atomic():
            positions.move([Move("s", "0", "a", "b", "e")])
        assert not positions.relabel("s", "0", "É", "g")
        assert positions.relabel("s", "0", "é", "g")
        positions.move([Move("s", "0", "a", other, "g")])
    assert positions.of("s") == {"0": (other, "g")}


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["+00:00", "+05:30"])
def test_now_goes_on_within_a_statement_in_any_zone(zone: str) -> None:
    session, utc = Session("default"), "SELECT UTC_TIMESTAMP(6)"
    now = session.dialect.microseconds
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@time_zone")
        (before,) = cursor.fetchone()
        cursor.execute("SET time_zone = %s", [zone])
        try:
            ((begin,),) = session.run(utc, ())
            ((first, _, last),) = session.run(f"SELECT {now}, SLEEP(0.01), {now}", ())
            ((end,),) = session.run(utc, ())
        finally:
            cursor.execute("SET time_zone = %s", [before])
    epoch = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    assert begin <= epoch + timedelta(microseconds=first)
    assert epoch + timedelta(microseconds=last) <= end
    assert last - first >= 10_000


@pytest.mark.django_db
class TestChecks:
    def found(self) -> set[str]:
        """The errors of the server; models of the test app declare more than it is offered."""
        messages = [m for m in run_checks(databases=["default"]) if "counters.E04" in str(m.id)]
        return {str(m.id) for m in messages if "isn't offered" not in m.msg}

    def test_this_server_is_fit_and_it_is_said_what_is_reduced(self) -> None:
        assert self.found() == set()
        (warning,) = [m for m in run_checks(databases=["default"]) if m.id == "counters.W019"]
        assert "TRUNCATE" in warning.msg

    @pytest.mark.parametrize(
        ("options", "remedy"),
        [
            ({"STRATEGY": "ledger"}, "'sharded'"),
            ({"STRATEGY": "cached"}, "ON_REDIS_DOWN"),
            ({"HISTORY": "1d"}, "PER"),
            ({"ONCE": True}, "ONCE"),
        ],
        ids=str,
    )
    def test_what_is_not_offered_is_said_with_its_remedy(
        self, options: dict[str, Any], remedy: str
    ) -> None:
        with override_counters(views=options):
            found = [m for m in run_checks(databases=["default"]) if m.id == "counters.E044"]
            (message,) = [m.msg for m in found if "views" in m.msg]
        assert "Use PostgreSQL" in message
        assert remedy in message

    @pytest.mark.parametrize("mode", ["''", "'ANSI_QUOTES'"])
    def test_a_server_that_cuts_numbers_off_is_refused(self, mode: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@sql_mode")
            (before,) = cursor.fetchone()
            cursor.execute(f"SET SESSION sql_mode = {mode}")
            try:
                assert self.found() == {"counters.E044"}
            finally:
                cursor.execute("SET SESSION sql_mode = %s", [before])

    def test_a_server_that_takes_back_a_block_after_a_timeout_is_refused(self) -> None:
        """It can be set only as the server starts: its answer is changed on the way."""

        def asked(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            return execute(sql.replace("@@innodb_rollback_on_timeout", "1"), *rest)

        with connection.execute_wrapper(asked):
            assert self.found() == {"counters.E044"}

    @pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
    def test_another_isolation_is_refused(self, level: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
            try:
                assert self.found() == {"counters.E044"}
            finally:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")


@pytest.mark.django_db(transaction=True)
def test_what_is_gathered_is_not_cut_off() -> None:
    """A server keeps a kilobyte of it, or a megabyte, if it is not told to keep more."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION group_concat_max_len = 64")
    with override_counters(hits={"STRATEGY": "sharded"}):
        hits = dict.fromkeys([f"hits:{n}" for n in range(20)], 1)
        Counter.objects.increment_many(hits)
        rollup()
        assert_counts(hits)
        assert not CounterShard.objects.filter(shard__gte=0).exists()


@pytest.mark.django_db(transaction=True)
def test_a_uuid_that_is_a_text_of_32_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL, and MariaDB before 10.7, have no type for it: Django makes another column there."""
    models = (Device, Gadget)
    with connection.schema_editor() as editor:
        for model in models:
            editor.delete_model(model)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(connection.features, "has_native_uuid_field", False)
            patch.setitem(connection.data_types, "UUIDField", "char(32)")
            with connection.schema_editor() as editor:
                for model in models:
                    editor.create_model(model)
            count_two_of_each()
    finally:
        with connection.schema_editor() as editor:
            for model in models:
                editor.delete_model(model)
                editor.create_model(model)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({"STRATEGY": "ledger"}, lambda: Counter.objects.increment("views:a")),
        ({"STRATEGY": "ledger"}, lambda: Counter.objects.increment_many({"views:a": 1})),
        ({"HISTORY": "1d"}, record_history),
        ({"ONCE": True}, lambda: Counter.objects.increment("views:a", who="ann")),
    ],
    ids=["one", "many", "history", "once"],
)
def test_what_is_not_offered_is_refused_and_counts_nothing(
    options: dict[str, Any], call: Callable[[], object]
) -> None:
    with override_counters(views=options), pytest.raises(InvalidConfiguration, match="PostgreSQL"):
        call()
    assert not Counter.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_upkeep_goes_on_without_a_ledger(settings: Any) -> None:
    settings.COUNTERS = {"hits": {"STRATEGY": "sharded"}, "stock": {"FLOOR": 0}}
    Counter.objects.increment_many({"hits:a": 2, "stock:a": 3})
    assert rollup().rows == 1
    found = verify()
    assert (found.checked, found.drifts) == (0, [])
    assert verify(sample=2).drifts == []
    assert maintain().forgotten == 0
    assert state() == State(0, 0, None, None, None, "", None)
    explanation = Counter.objects.explain("hits:a")
    assert (explanation.value, explanation.total, explanation.tail) == (2, 2, 0)
    assert Counter.objects.explain("none").value == 0
    assert Counter.objects.forget("hits:a")
    assert "counters.E066" not in {one.id for one in run_checks(databases=["default"])}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("cached")
def test_a_cached_token_lands_once_without_a_ledger() -> None:
    token = str(mint(clock.utc()))
    for _ in range(2):
        Counter.objects.increment("views:a", 4, token=token)
    flush()
    assert Counter.objects.increment("views:a", 4, token=token).replayed
    flush()
    assert_counts({"views:a": 4})
    assert Counter.objects.get(key="views:a").value == 4


def count_two_of_each() -> None:
    devices = [Device.objects.create() for _ in range(2)]
    gadgets = [Gadget.objects.create() for _ in range(2)]
    for number, (device, gadget) in enumerate(zip(devices, gadgets, strict=True), 1):
        assert device.events.increment(number) == number
        assert gadget.beeps.increment(number) == number
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM testapp_gadget ORDER BY id")
        assert [key for (key,) in cursor.fetchall()] == sorted(one.pk.hex for one in gadgets)
    counted = {gadget.pk: number for number, gadget in enumerate(gadgets, 1)}
    assert SlottedCounter.objects.values_of(gadgets, "beeps") == counted
    rollup()
    assert SlottedCounter.objects.values_of(gadgets, "beeps") == counted
    assert dict(Gadget.objects.values_list("pk", "beeps")) == counted
