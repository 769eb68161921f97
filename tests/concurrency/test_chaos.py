"""Writers, repeaters, rollers, keepers, readers, and one who terminates their connections."""

from __future__ import annotations

import os
import secrets
from collections import Counter as Sums

import pytest

from django_counters import clock
from django_counters.models import Counter, CounterDelta, CounterIncident
from django_counters.stores.sql.dialects.ledger import DELTAS
from django_counters.tokens import mint
from django_counters.upkeep.verify import verify
from tests.concurrency import chaos
from tests.concurrency.crowd import processes
from tests.concurrency.narrow import dropped, narrow
from tests.concurrency.servers import execute
from tests.settling import roll_up

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
SEED = "COUNTERS_CHAOS_SEED"
HAPPENED = ("appended", "replayed", "connections lost", "entries rolled up")
# A busy machine may not come to these within seconds.
HAPPENED_IN_THE_END = (
    *HAPPENED,
    "rolled back",
    "committed late",
    "partitions created",
    "partitions sealed",
    "partitions dropped",
)


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_everything_at_once(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, nothing is counted twice, nobody deadlocks, and each read is right."""
    seed = int(os.environ.get(SEED) or secrets.randbelow(1_000_000))
    print(f"{SEED}={seed}")
    monkeypatch.setattr("django_counters.upkeep.partitions.AHEAD", chaos.AHEAD)
    before = deadlocks()
    with narrow(chaos.WIDTH, chaos.WINDOW, ahead=60):
        append_of_the_last_seconds()
        scene = chaos.Scene(seed, seconds)
        told = processes(chaos.CROWD, chaos.play, scene)
        did = sum((one.did for one in told), Sums[str]())
        print(dict(did))
        assert [wrong for one in told for wrong in one.wrong] == []
        assert_exact(scene)
        assert deadlocks() == before
        due = HAPPENED if seconds < 60 else HAPPENED_IN_THE_END
        assert [what for what in due if not did[what]] == []


def append_of_the_last_seconds() -> None:
    """Entries in partitions that are soon sealed and dropped."""
    now = clock.utc()
    for number in range(chaos.FIRST):
        token_of_each = [mint(now - number / chaos.FIRST * chaos.WINDOW * 0.9) for _ in chaos.KEYS]
        CounterDelta.objects.append_many(
            [(key, 1, token) for key, token in zip(chaos.KEYS, token_of_each, strict=True)]
        )


def assert_exact(scene: chaos.Scene) -> None:
    expected = {}
    for subject, key in enumerate(chaos.KEYS):
        acknowledged, attempted = scene.book.sums(subject)
        assert acknowledged == attempted
        expected[key] = chaos.FIRST + acknowledged
    assert Counter.objects.values_of(chaos.KEYS) == expected
    roll_up()
    assert dict(Counter.objects.values_list("key", "value")) == expected
    assert verify().drifts == []
    assert not CounterIncident.objects.exists()
    assert sum(one.entries for one in dropped()) > 0
    assert execute(f"SELECT token FROM {DELTAS} GROUP BY token HAVING COUNT(*) > 1") == []


def deadlocks() -> int:
    """How many there were in this database, of whomever."""
    ((number,),) = execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return int(number)
