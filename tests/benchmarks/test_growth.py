"""The curves count what they say; no test asserts a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial

import pytest
import redis
from django.db.models import F

from benchmarks import pgbench
from benchmarks.cases import cached
from benchmarks.catalogue import everything
from benchmarks.curves import Line
from benchmarks.growth import GROWTHS, bloat, clients, folding, memory, reads
from benchmarks.growth.measuring import (
    Label,
    Plan,
    Sides,
    as_time_allows,
    emptied,
    measured,
    microseconds,
    point,
    rate,
)
from benchmarks.harness import MIN_ROUNDS, Effort, Sample, Side, WrongSum
from benchmarks.inspection import execute, holds
from benchmarks.settings import COUNTERS
from django_counters.models import Counter
from django_counters.upkeep.flush import flush

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("tables", "apart", "namespaces"),
]

Prepare = Callable[[int], AbstractContextManager[Sides]]
ONCE = Effort(rounds=1)
SMALL = bloat.Load(counters=20, step=2000, steps=3, after=1)
FEW = memory.Load(flushes=20, every=10, counters=40, page=20)

SIZED: dict[str, tuple[Prepare, int]] = {
    "shards": (reads.sharded, 3),
    "tail": (reads.behind, 20),
    "page": (reads.paged, 10),
    "flush": (folding.flushing, 1000),
    "rollup": (folding.rolling_up, 1000),
}
DRIVEN: dict[str, tuple[Prepare, int]] = {
    "committing": (clients.committing, 2),
    "holding": (clients.holding, 2),
}


@pytest.fixture
def namespaces(override_counters: Callable[..., None]) -> None:
    override_counters(**COUNTERS)


@pytest.fixture
def driven() -> None:
    """For tests that need pgbench."""
    try:
        pgbench.find()
    except pgbench.PgbenchFailed as error:
        pytest.skip(str(error))


@pytest.fixture(params=[*SIZED, *(pytest.param(name, marks=pytest.mark.slow) for name in DRIVEN)])
def sides(request: pytest.FixtureRequest) -> Iterator[Sides]:
    """All ways of a growth, at a small size."""
    if request.param in DRIVEN:
        request.getfixturevalue("driven")
    prepare, size = {**SIZED, **DRIVEN}[request.param]
    with prepare(size) as found:
        yield found


def test_what_was_counted_is_stored(sides: Sides) -> None:
    first = [side() for side in sides.run]
    second = [side() for side in sides.run]
    sides.verify([one.operations + two.operations for one, two in zip(first, second, strict=True)])


def test_a_value_that_is_one_too_high_is_a_wrong_sum(sides: Sides) -> None:
    counted = [side().operations for side in sides.run]
    sides.verify(counted)
    flush()
    Counter.objects.update(value=F("value") + 1)
    with pytest.raises(WrongSum):
        sides.verify(counted)


def test_each_way_of_writing_is_verified(driven: None) -> None:
    with clients.committing(2) as sides:
        counted = [side().operations for side in sides.run]
        sides.verify(counted)
        for way in range(len(counted)):
            with pytest.raises(WrongSum):
                sides.verify([done + (at == way) for at, done in enumerate(counted)])


def test_clients_of_redis_send_what_they_say(apart: str) -> None:
    with cached.client() as server, clients.in_redis(4) as sides:
        server.config_resetstat()
        done = sides.run[0]()
        calls = server.info("commandstats")
        assert calls["cmdstat_evalsha"]["calls"] == done.operations
        assert "cmdstat_incrby" not in calls
        done = sides.run[1]()
        assert server.info("commandstats")["cmdstat_incrby"]["calls"] == done.operations


def test_as_many_clients_as_said_are_connected(apart: str) -> None:
    with cached.client() as server, clients.in_redis(6) as sides:
        before = server.info("clients")["connected_clients"]
        sides.run[0]()
        assert server.info("clients")["connected_clients"] == before + 6


@contextmanager
def _counting(size: int, ran: list[str], verified: list[Sequence[int]]) -> Iterator[Sides]:
    def side(name: str) -> Side:
        def run() -> Sample:
            ran.append(name)
            return Sample(size, 0.5)

        return run

    yield Sides([side("a"), side("b")], verified.append)


def test_sides_take_turns_and_all_that_they_did_is_verified() -> None:
    ran: list[str] = []
    verified: list[Sequence[int]] = []
    labels = (Label("a"), Label("b", reference=True))
    prepare = partial(_counting, ran=ran, verified=verified)
    plan = Plan("turns", labels, (3, 40), prepare, rate, slices=2, few_from=40)
    found = measured(plan, Effort(rounds=7), lambda text: None)
    assert ["".join(ran[at : at + 4]) for at in range(0, 12, 4)] == ["abba", "abba", "abba"]
    # The warm-up is one slice.
    assert verified == [[3 * (1 + 2 * MIN_ROUNDS)] * 2, [40 * (1 + 2 * 3)] * 2]
    assert [line.label for line in found if line.reference] == ["b"]
    for line in found:
        assert [one.x for one in line.points] == [3, 40]
        assert [one.median for one in line.points] == [6, 80]


def test_where_time_is_short_the_greatest_size_is_left_out() -> None:
    assert as_time_allows((1, 2, 3), Effort(share=0.3)) == (1, 2)
    assert as_time_allows((1, 2, 3), Effort()) == (1, 2, 3)


def test_a_point_has_the_median_the_least_and_the_greatest() -> None:
    assert point(5, [3, 1, 2]) == point(5, [1, 2, 3])
    one = point(5, [3, 1, 8])
    assert (one.x, one.median, one.least, one.greatest) == (5, 3, 1, 8)
    assert microseconds(Sample(4, 2.0)) == 500_000
    assert rate(Sample(4, 2.0)) == 2


def test_nothing_is_left_of_a_growth(server: str) -> None:
    with redis.Redis.from_url(server) as client:
        before = set(client.scan_iter())
        with emptied():
            Counter.objects.increment_many({"views:a": 1, "pages:b": 1, "orders:c": 1})
            with reads.sharded(3):
                assert execute("SELECT COUNT(*) FROM django_counters_countershard") == 3
            assert set(client.scan_iter()) != before
        assert set(client.scan_iter()) == before
    for table in ("counter", "countershard", "counterdelta"):
        assert execute(f"SELECT COUNT(*) FROM django_counters_{table}") == 0


def _line(lines: Sequence[Line], label: str) -> list[float]:
    (found,) = [line for line in lines if line.label == label]
    return [one.median for one in found.points]


def test_what_a_snapshot_keeps_is_seen() -> None:
    lines = bloat.bloat(SMALL, ONCE, lambda text: None)
    opened = _line(lines, "table, snapshot open")
    assert opened == sorted(set(opened))  # each step takes room
    without = _line(lines, "table, no snapshot")
    assert len(without) == SMALL.steps + SMALL.after
    assert without[-1] < opened[-1]
    assert max(_line(lines, "table, closed, after VACUUM")) <= opened[-1]


def test_a_bloated_counter_is_verified() -> None:
    for make in (bloat.exact, bloat.bare):
        one = make()
        one.change()
        one.verify(1)
        with pytest.raises(WrongSum):
            one.verify(2)
    idle = bloat.Hot(lambda: None, partial(holds, "views:idle"))
    with pytest.raises(WrongSum):
        bloat.rates(SMALL, lambda: idle, held=False)


def test_bloated_counters_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(bloat.sizes(SMALL, held=False)) == SMALL.steps + SMALL.after
    monkeypatch.setattr(bloat, "in_steps", lambda load, held, do: [0.0])
    with pytest.raises(WrongSum):
        bloat.sizes(SMALL, held=False)


def test_rates_have_references() -> None:
    lines = bloat.slowness(replace(SMALL, counters=1, step=20), ONCE, lambda text: None)
    assert [line.reference for line in lines] == [False, False, True, True, True]
    assert all(one.least > 0 for line in lines for one in line.points)


def test_a_snapshot_is_held_until_it_is_closed() -> None:
    held = (
        "SELECT COUNT(*) FROM pg_stat_activity "
        "WHERE backend_xmin IS NOT NULL AND state = 'idle in transaction'"
    )
    with bloat.snapshot(True) as close:
        assert execute(held) == 1
        close()
        assert execute(held) == 0
    with bloat.snapshot(False):
        assert execute(held) == 0


def test_a_worker_flushes_what_was_counted_and_grows_no_more() -> None:
    load = memory.Load(flushes=200, every=50, counters=100, page=20)
    found = memory.run(load)
    busy = [one for one, _ in found]
    assert len(found) == 5
    assert busy[-1] - busy[1] < 0.5
    assert all(idle > 10 for _, idle in found)


def test_a_worker_that_does_not_land_all_is_a_wrong_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.Worker, "told", lambda self: '{"counters": 20}')
    with pytest.raises(WrongSum):
        memory.run(FEW)


def test_the_growths_that_are_asked_for_are_there() -> None:
    names = [growth.name for growth in GROWTHS]
    assert names == [
        *("clients", "clients-hold", "read-shards", "read-tail", "read-page"),
        *("flush-size", "rollup-size", "bloat", "bloat-rate", "memory"),
    ]
    assert clients.CLIENTS == (1, 4, 16, 64)
    assert (reads.SHARDS[0], reads.SHARDS[-1]) == (1, 64)
    assert (reads.TAILS[0], reads.TAILS[-1]) == (0, 100_000)
    assert (reads.PAGES[0], reads.PAGES[-1]) == (1, 500)
    assert folding.SIZES == (1000, 10_000, 100_000, 1_000_000)
    assert bloat.MILLION.step * bloat.MILLION.steps == 1_000_000
    assert memory.HOUR.flushes == 3600


def test_no_growth_is_called_like_a_case() -> None:
    names = [name for group in everything() for name in group.names()]
    assert len(set(names)) == len(names)


def test_each_growth_has_a_reference() -> None:
    plans = (clients.COMMITTING, clients.HOLDING, reads.OF_SHARDS, reads.OF_TAIL, reads.OF_PAGE)
    for plan in (*plans, folding.FLUSHING, folding.ROLLING_UP):
        assert any(label.reference for label in plan.labels)
        assert len(plan.labels) > len([label for label in plan.labels if label.reference])


def test_a_growth_leaves_the_settings_as_they_were(apart: str) -> None:
    before = cached.location(), cached.prefix()
    with emptied():
        assert cached.prefix() != before[1]
    assert (cached.location(), cached.prefix()) == before
