"""The cases of the ledger count what they say; no test asserts a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import psycopg
import pytest
from django.db import connection
from django.db.models import F

from benchmarks import inspection, pgbench
from benchmarks.cases import entries, ledger
from benchmarks.cases.statements import Load, alone, compare
from benchmarks.harness import Pair, WrongSum, total
from django_counters.models import Counter, CounterDelta
from django_counters.stores.sql.dialects.ledger import Appends
from django_counters.stores.sql.dialects.ledger_postgresql import LEDGER
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.tokens import moment_of

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

Prepare = Callable[[], AbstractContextManager[Pair]]

CASES: dict[str, Prepare] = {
    "many": ledger.many,
    "copy": partial(ledger.copying, False),
    "copy-rows": partial(ledger.copying, True),
    "replay": partial(ledger.replaying, ledger.uuids),
    "replay-text": partial(ledger.replaying, ledger.texts),
    "no tail": partial(entries.reading, 0),
    "tail": partial(entries.reading, 20),
    "fold": partial(entries.folding, entries.BATCH),
    "drop": partial(entries.dropping, 3000),
    "seal": partial(entries.sealing, 3000),
}
every_case = pytest.mark.parametrize("prepare", CASES.values(), ids=CASES)


@pytest.fixture(autouse=True)
def _ledger(override_counters: Callable[..., None]) -> None:
    override_counters(orders={"STRATEGY": "ledger"})


@pytest.fixture
def driven() -> None:
    """For tests that need pgbench."""
    try:
        pgbench.find()
    except pgbench.PgbenchFailed as error:
        pytest.skip(str(error))


@pytest.fixture
def in_between() -> Iterator[psycopg.Connection]:
    """A transaction of somebody else that has a number and does not end."""
    params = connection.get_connection_params()
    known = {name: params[name] for name in params if name not in pgbench.DRIVERS_OWN}
    with psycopg.connect(**known) as other:
        other.execute("SELECT pg_current_xact_id()")
        yield other


@every_case
def test_what_was_counted_is_stored(prepare: Prepare) -> None:
    with prepare() as pair:
        subject, reference = total([pair.subject(), pair.subject()]), pair.reference()
        pair.verify(subject.operations, reference.operations)


@every_case
def test_a_value_that_is_one_too_high_is_a_wrong_sum(prepare: Prepare) -> None:
    with prepare() as pair:
        subject, reference = pair.subject().operations, pair.reference().operations
        pair.verify(subject, reference)
        Counter.objects.update(value=F("value") + 1)
        with pytest.raises(WrongSum):
            pair.verify(subject, reference)


def test_cases_leave_no_old_partitions() -> None:
    before = SqlPartitions("default").present()
    for prepare in (CASES["drop"], CASES["seal"]):
        with prepare() as pair:
            pair.subject()
            pair.reference()
    assert SqlPartitions("default").present() == before


def test_pgbench_sends_appends_and_upserts_that_count(driven: None) -> None:
    with compare(Load(ledger.appended, alone, 2), Load(ledger.upsert, alone, 2))() as pair:
        subject, reference = pair.subject().operations, pair.reference().operations
        pair.verify(subject, reference)
        with pytest.raises(WrongSum):
            pair.verify(subject + 1, reference)
        with pytest.raises(WrongSum):
            pair.verify(subject, reference + 1)


def test_the_driver_copies_what_the_library_copies() -> None:
    assert isinstance(LEDGER.appends, Appends)
    assert LEDGER.appends.copy == ledger.COPY
    with ledger.copying(False) as pair:
        pair.subject()
        pair.reference()
    for name in ("copied", "raw"):
        rows = CounterDelta.objects.filter(key__startswith=f"orders:{name}")
        assert rows.count() == 2 * ledger.BATCH
        assert all(moment_of(row.token) == row.created_at for row in rows)


def test_a_rollup_is_measured_when_everybody_else_has_ended(
    in_between: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "ENDS_WITHIN", 0.05)
    with pytest.raises(WrongSum, match="does not end"):
        inspection.let_others_end()
    in_between.rollback()
    monkeypatch.undo()
    inspection.let_others_end()
