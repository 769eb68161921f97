"""Each case counts what it says, and what it counts is compared with what is stored.

All take minutes, so cases of some themes are drawn by the seed that pytest prints (``Using
--randomly-seed``); ``--slow`` runs all. No test asserts a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from benchmarks.capacity import measuring, ways
from benchmarks.cases import cached, exact
from benchmarks.catalogue import Group, themes
from benchmarks.growth import GROWTHS
from benchmarks.growth.measuring import Growth, emptied
from benchmarks.harness import Case, Effort, Pair, Sample, Work, WrongSum, at_least
from benchmarks.models import DaySketch
from benchmarks.session import Session
from benchmarks.settings import COUNTERS
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.uniques.sketches import EXACT
from django_counters.models import Counter, CounterShard
from django_counters.redis.keys import SLOTS

pytestmark = [
    # Those of MySQL are in `test_mysql`.
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=["default", "other"]),
    pytest.mark.usefixtures("tables", "apart"),
]

DRAWN = 4  # themes, and a case of each
# What only reads, or undoes what it does: a wrong value has to be noticed, however often it ran.
READS = frozenset(
    {
        *("values", "read", "tail100", "cached-read", "cached-page", "rest-read"),
        *("cells-read", "cells-read-tags", "top"),
        *("uniques", "uniques-datasketches"),
    }
)
# What is compared with a library that no other test needs.
PEERS = {
    "uniques-datasketches": "datasketches",
    **dict.fromkeys(("limit-fixed", "limit-moving"), "limits"),
}
# One side alone changes what is stored.
ONE_SIDED = {
    "first": {"subject"},
    "fold": {"subject"},
    "likes-again": {"reference"},
    "replay": {"reference"},
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All cases; those that are not drawn are marked as slow."""
    if "case" not in metafunc.fixturenames:
        return
    chance = random.Random(metafunc.config.getoption("randomly_seed", 0))
    cases = list(themes().values())
    drawn = [chance.choice(themed) for themed in chance.sample(cases, DRAWN)]
    metafunc.parametrize(
        "case",
        [
            pytest.param(case, id=case.name, marks=() if case in drawn else pytest.mark.slow)
            for themed in cases
            for case in themed
        ],
    )


@pytest.fixture(autouse=True)
def _few(override_counters: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespaces of the benchmarks, and little to do."""
    override_counters(**COUNTERS)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "benchmarks.settings")


def test_what_a_case_counts_is_stored_and_a_wrong_count_is_noticed(case: Case) -> None:
    if case.name in PEERS:
        pytest.importorskip(PEERS[case.name])
    with (case.work.less or case.work.brief or case.work.prepare)() as pair:
        subject, reference = pair.subject().operations, pair.reference().operations
        assert min(subject, reference) > 0
        pair.verify(subject, reference)
        noticed = {
            side
            for side, counts in {
                "subject": (subject + 1, reference),
                "reference": (subject, reference + 1),
            }.items()
            if _is_wrong(pair, *counts)
        }
        if case.name in READS:
            _spoil()
            assert _is_wrong(pair, subject, reference)
        else:
            assert noticed == ONE_SIDED.get(case.name, {"subject", "reference"})


def _is_wrong(pair: Pair, subject: int, reference: int) -> bool:
    try:
        pair.verify(subject, reference)
    except WrongSum:
        return True
    return False


def _spoil() -> None:
    """Let each stored value be one too high, wherever it is."""
    flush()
    there = connection.introspection.table_names()
    for model in (Counter, CounterCell, CounterShard):
        if model._meta.db_table in there:
            model._base_manager.update(value=F("value") + 1)
    if DaySketch._meta.db_table in there:
        DaySketch.objects.update(kind=EXACT, body=b"")
    slots = slots_of("default", cached.prefix())
    with cached.client() as client:  # cached reads ask for totals again
        client.delete(*(slots.keys(slot)[1] for slot in range(SLOTS)))


@pytest.mark.parametrize("growth", GROWTHS, ids=lambda growth: growth.name)
def test_what_a_growth_counts_is_stored(growth: Growth) -> None:
    with emptied(), growth.prepare(growth.sizes[0]) as sides:
        counted = [run().operations for run in sides.run]
        assert len(counted) == len(growth.labels)
        sides.verify(counted)


@pytest.mark.alone
def test_the_costs_of_units_are_of_what_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "THINGS", 1000)
    monkeypatch.setattr(ways, "ROWS", 1000)
    found = measuring.measured(Effort(rounds=1, share=0.025))
    costs = {cost["name"]: cost for cost in found["costs"]}
    assert all(cost["seconds"]["median"] > 0 for cost in costs.values())
    # Each program pays for its own work.
    assert costs["exact"]["wal"]["median"] > 20 > costs["cached"]["wal"]["median"]
    assert costs["cached"]["log"]["median"] > 20 > costs["exact"]["log"]["median"]
    entry, row, *_ = found["sizes"]
    assert min(entry["median"], row["median"]) > 20


def verbs_of(action: Callable[[], object]) -> str:
    """The first letters of what is sent: Begin, Select, Update, Insert, Commit."""
    with CaptureQueriesContext(connection) as queries:
        action()
    return "".join(query["sql"][0] for query in queries)


def test_other_ways_send_what_their_rows_speak_of() -> None:
    exact.save_one("seen")
    assert verbs_of(lambda: exact.save_one("seen")) == "BSSUC"
    assert verbs_of(lambda: exact.lock_one("seen")) == "BSUC"
    Counter.objects.increment("views:one")
    assert verbs_of(lambda: exact.update_one("views:one")) == "U"


def test_redis_is_asked_what_the_rows_say() -> None:
    with cached.client() as client, cached.beside_script(nullcontext) as pair:
        for side in (pair.subject, pair.reference):
            client.config_resetstat()
            side()
            calls = client.info("commandstats")
            assert calls["cmdstat_evalsha"]["calls"] == cached.SLICE
    with cached.client() as client, cached.beside_django_redis() as pair:
        client.config_resetstat()
        pair.reference()
        calls = client.info("commandstats")
        assert calls["cmdstat_incrby"]["calls"] == cached.SLICE


def test_a_session_notes_what_fails_and_measures_the_next_thing() -> None:
    def wrong(subject: int, reference: int) -> None:
        raise WrongSum("the database has 1, counted were 2")

    @contextmanager
    def pair(verify: Callable[[int, int], None]) -> Iterator[Pair]:
        yield Pair(lambda: Sample(1, 1.0), lambda: Sample(1, 2.0), verify)

    checks = {"wrong": wrong, "fine": lambda mine, theirs: None}
    cases = [
        Case(name, "this", "that", at_least(2), Work(partial(pair, check)))
        for name, check in checks.items()
    ]
    session = Session(Effort(rounds=5))
    session.measure(Group(True, cases), {"cores": 2})
    assert session.failures == ["wrong: WrongSum: the database has 1, counted were 2"]
    (row,) = session.document["rows"]
    assert (row["case"], row["ratio"], row["met"], row["measured"]) == (
        "fine",
        2,
        True,
        {"cores": 2},
    )
