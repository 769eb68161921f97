"""The cases of the API count what they say, over HTTP; no test asserts a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db.models import F

from benchmarks.cases import rest
from benchmarks.harness import Case, WrongSum, total
from benchmarks.load import LoadFailed
from benchmarks.models import NaiveCounter
from benchmarks.run import all_groups
from django_counters.models import Counter, CounterToken
from django_counters.upkeep.flush import flush as land

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("tables", "apart"),
]
# Each of them starts two servers.
SHORT = ("rest-increment", "rest-read")
COUNTING = [
    pytest.param(case, id=case.name, marks=() if case.name in SHORT else pytest.mark.slow)
    for case in rest.CASES
]


@pytest.fixture(autouse=True)
def _shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "SERVING", 0.1)


@pytest.mark.parametrize("case", COUNTING)
def test_what_was_counted_is_stored(case: Case) -> None:
    with case.prepare() as pair:
        subject, reference = total([pair.subject(), pair.subject()]), pair.reference()
        assert min(subject.operations, reference.operations) >= rest.CONNECTIONS
        assert len(subject.waits) == subject.operations
        assert max(subject.waits) <= subject.seconds
        pair.verify(subject.operations, reference.operations)


@pytest.mark.parametrize("name", ["exact", "increment"])
def test_a_value_that_is_one_too_high_is_a_wrong_sum(name: str) -> None:
    with rest.counting(*rest.ROWS[name]) as pair:
        subject, reference = pair.subject().operations, pair.reference().operations
        pair.verify(subject, reference)
        with pytest.raises(WrongSum):
            pair.verify(subject, reference - 1)
        land()
        Counter.objects.update(value=F("value") + 1)
        with pytest.raises(WrongSum):
            pair.verify(subject, reference)


def test_each_request_has_an_idempotency_key_of_its_own() -> None:
    with rest.counting(*rest.ROWS["once-exact"]) as pair:
        counted = pair.subject().operations
        assert CounterToken.objects.count() == counted
        pair.reference()
        assert CounterToken.objects.count() == counted


def test_what_is_refused_is_no_figure() -> None:
    subject, reference = rest.ROWS["exact"]
    with (
        rest.counting(replace(subject, namespace="nobodys"), reference) as pair,
        pytest.raises(LoadFailed, match="404 Not Found"),
    ):
        pair.subject()
    assert not NaiveCounter.objects.exists()


def test_the_rows_that_the_api_is_judged_by_are_there() -> None:
    targets = {
        case.name: case.target and (case.target.kind, case.target.number)
        for group in all_groups()
        for case in group.cases
        if case.name.startswith("rest-")
    }
    assert targets == {
        "rest-increment": ("at least", 0.85),
        "rest-read": ("at least", 0.85),
        "rest-exact": ("at least", 0.8),
        **dict.fromkeys(
            ("rest-once-cached", "rest-once-exact", "rest-limit-redis", "rest-limit-database")
        ),
    }
