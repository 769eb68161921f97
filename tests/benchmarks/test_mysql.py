"""The cases of MySQL count what they say; those of PostgreSQL are in `test_cases`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.cases import mysql
from benchmarks.catalogue import MYSQL_ROWS, themes
from benchmarks.harness import Case, WrongSum
from benchmarks.models import NaiveCounter
from benchmarks.settings import COUNTERS

pytestmark = [
    pytest.mark.skipif(
        connection.vendor != "mysql", reason=f"is about MySQL; this run is on {connection.vendor}"
    ),
    pytest.mark.django_db(transaction=True),
]
CASES = [case for cases in themes(MYSQL_ROWS).values() for case in cases]


@pytest.fixture(autouse=True)
def _table(
    forks: None, override_counters: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    override_counters(**COUNTERS)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    with connection.schema_editor() as editor:
        editor.create_model(NaiveCounter)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(NaiveCounter)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_case_counts_is_stored_and_a_wrong_count_is_noticed(case: Case) -> None:
    with (case.work.less or case.work.brief or case.work.prepare)() as pair:
        subject, reference = pair.subject().operations, pair.reference().operations
        assert min(subject, reference) > 0
        pair.verify(subject, reference)
        for wrong in ((subject + 1, reference), (subject, reference + 1)):
            with pytest.raises(WrongSum):
                pair.verify(*wrong)


@pytest.mark.parametrize(
    ("way", "sent"), [(mysql.update_and_read, "BUSC"), (mysql.lock_and_save, "BSUC")]
)
def test_other_ways_send_what_their_rows_speak_of(way: Callable[[str], int], sent: str) -> None:
    NaiveCounter.objects.create(key="seen")
    with CaptureQueriesContext(connection) as queries:
        assert way("seen") == 1
    assert "".join(query["sql"][0] for query in queries) == sent
