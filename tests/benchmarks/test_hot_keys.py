"""The simulation of hot counters is what one gets by hand, by drawing, and from Redis's rules."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from importlib import resources

import matplotlib as mpl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import hot_keys
from benchmarks.capacity import cluster, page
from benchmarks.capacity.cluster import NotSettled, settled
from benchmarks.capacity.costs import Capacity, Cost, Figure, Span
from benchmarks.capacity.model import KEPT, REMEMBERED, STRATEGIES, Load, plan
from benchmarks.hot_keys import NODES, NOTHING, REMEDIES, SKEWS, Remedy
from django_counters.stores.redis.keys import SLOTS, slot_of

MICRO = 1e-6
EXACT, _, LEDGER, _, CACHED, _ = STRATEGIES


def cost(name: str, database: int, redis: int) -> Cost:
    """Times are in microseconds; what else it takes is of no account here."""
    spent = (Span.of([micro * MICRO]) for micro in (1, database, redis))
    client, in_database, in_redis = spent
    nothing = Span.of([0])
    words = f"one {name}"
    return Cost(name, words, client, in_database, in_redis, nothing, nothing, client)


def figure(name: str, number: float) -> Figure:
    return Figure(name, f"one {name}", "of a unit", Span.of([number]))


COSTS = Capacity(
    {},
    (
        cost("exact", 200, 0),
        cost("ledger", 250, 0),
        cost("rollup", 2, 0),
        cost("cached", 0, 20),
        cost("cached-first", 300, 50),
        cost("flush", 4, 2),
        cost("flush-cold", 4, 2),
    ),
    (
        figure("rate-exact", 1000),
        *(figure(name, 100) for name in ("entry", "row", "pending", "known")),
    ),
)
every_skew = pytest.mark.parametrize("skew", SKEWS)
every_count = pytest.mark.parametrize("count", NODES)


def crc16(text: str) -> int:
    """As the specification of Redis Cluster has it: XMODEM, bit by bit."""
    value = 0
    for byte in text.encode():
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1) ^ 0x1021 if value & 0x8000 else value << 1
    return value & 0xFFFF


def test_shares_are_those_of_zipf() -> None:
    assert hot_keys.shares(1.0, 3) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert hot_keys.shares(0.5, 2)[0] == pytest.approx(2**0.5 / (1 + 2**0.5))


@pytest.mark.parametrize(
    ("share", "batch", "expected"),
    [(0.25, 1, 0.25), (0.5, 2, 0.375), (1.0, 10, 0.1), (0.5, 3, 0.875 / 3)],
)
def test_a_merged_counter_is_one_command_of_a_batch(
    share: float, batch: int, expected: float
) -> None:
    assert hot_keys.commands(share, batch) == pytest.approx(expected)


def test_so_many_increments_change_so_many_counters() -> None:
    assert hot_keys.changed(0.0, 2, 2) == pytest.approx(1.5)
    assert hot_keys.changed(1.0, 1, 100) == pytest.approx(1)


def test_tags_go_where_the_specification_says() -> None:
    assert crc16("123456789") == 0x31C3  # the specification's own example
    expected = [crc16(f"default:{slot}") % 16384 for slot in range(SLOTS)]
    assert list(hot_keys.tags(0)) == expected
    assert set(hot_keys.tags(1)).isdisjoint(expected)


def test_counters_go_to_the_slots_of_the_app() -> None:
    (slots,) = hot_keys.work(1.0, NOTHING, 3)
    expected = [0.0] * SLOTS
    for rank, share in enumerate([6 / 11, 3 / 11, 2 / 11]):
        expected[slot_of(f"views:page:{rank + 1}")] += share
    assert slots == pytest.approx(expected)


def test_a_divided_counter_is_in_many_slots() -> None:
    (slots,) = hot_keys.work(1.0, Remedy("", parts=16), 1)
    expected = [0.0] * SLOTS
    for part in range(16):
        expected[slot_of(f"views:page:1:{part}")] += 1 / 16
    assert slots == pytest.approx(expected)


@pytest.mark.parametrize(
    ("share", "largest", "parts"), [(0.5, 1.0, 1), (0.5, 0.5, 1), (0.5, 0.2, 3), (0.01, 0.2, 1)]
)
def test_no_part_is_larger_than_wanted(share: float, largest: float, parts: int) -> None:
    assert hot_keys.pieces(share, largest) == parts


def test_parts_are_in_all_caches() -> None:
    first, second = hot_keys.work(1.0, Remedy("", largest=0.3, caches=2), 2)
    # Shares of 2/3 and 1/3 are three parts and two, in the one cache and the other in turn.
    assert sum(first) == pytest.approx(2 / 9 + 2 / 9 + 1 / 6)
    assert sum(second) == pytest.approx(2 / 9 + 1 / 6)
    expected = [0.0] * SLOTS
    for name, share in (("1:1", 2 / 9), ("2:0", 1 / 6)):
        expected[slot_of(f"views:page:{name}")] += share
    assert second == pytest.approx(expected)


def test_nodes_have_equal_ranges_of_hash_slots() -> None:
    work = (tuple(float(2**slot) for slot in range(SLOTS)),)
    expected = [0.0, 0.0]
    for slot in range(SLOTS):
        expected[crc16(f"default:{slot}") % 16384 // 8192] += 2.0**slot
    assert hot_keys.nodes(work, 2) == expected


def test_the_largest_slot_is_placed_first() -> None:
    work = ((5.0, 4.0, 3.0, 3.0, 3.0),)
    assert sorted(hot_keys.nodes(work, 2, placed=True)) == [8.0, 10.0]


@every_skew
@every_count
@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda remedy: remedy.words)
def test_no_work_is_lost_or_made(skew: float, count: int, remedy: Remedy) -> None:
    work = hot_keys.work(skew, remedy)
    loads = hot_keys.nodes(work, count, remedy.placed)
    assert len(loads) == count
    assert sum(loads) == pytest.approx(sum(map(sum, work)))
    assert remedy.batch > 1 or sum(loads) == pytest.approx(1)
    assert hot_keys.busiest(skew, count, remedy) >= 1 - 1e-9


@every_skew
@every_count
def test_a_cluster_takes_no_more_than_its_nodes_and_its_hottest_counter(
    skew: float, count: int
) -> None:
    taken = hot_keys.capacity(skew, count)
    assert taken <= count + 1e-9
    assert taken <= 1 / hot_keys.shares(skew)[0] + 1e-9
    assert taken <= hot_keys.capacity(skew, count, hot_keys.PLACED) + 1e-9


def test_more_nodes_than_slots_are_of_no_use() -> None:
    sixteen, many = (hot_keys.capacity(1.0, count, hot_keys.PLACED) for count in (16, 64))
    assert sixteen == many
    assert hot_keys.capacity(1.0, 64, hot_keys.CACHES) > 2 * many


def test_what_is_drawn_by_chance_is_what_was_calculated() -> None:
    counters, draws, chance = 1000, 50_000, random.Random(4711)
    drawn = chance.choices(range(counters), hot_keys.shares(1.0, counters), k=draws)
    found = [0.0] * 4
    for rank in drawn:
        tag = crc16(f"default:{slot_of(f'views:page:{rank + 1}')}") % 16384
        found[tag * 4 // 16384] += 1 / draws
    expected = hot_keys.nodes(hot_keys.work(1.0, NOTHING, counters), 4)
    assert found == pytest.approx(expected, abs=0.01)


def test_merging_that_is_drawn_by_chance_is_what_was_calculated() -> None:
    counters, batch, rounds, chance = 100, 50, 400, random.Random(4711)
    shares = hot_keys.shares(1.0, counters)
    batches = [set(chance.choices(range(counters), shares, k=batch)) for _ in range(rounds)]
    sent = sum(map(len, batches)) / (rounds * batch)
    merged = hot_keys.work(1.0, Remedy("", batch=batch), counters)
    assert sum(map(sum, merged)) == pytest.approx(sent, rel=0.02)


def test_the_picture_is_the_same_each_time_and_has_words() -> None:
    picture = hot_keys.picture()
    assert picture == hot_keys.picture()
    for words in ("s = 0.8", "nodes", "even", *(remedy.words for remedy in REMEDIES)):
        assert f">{words}<" in picture
    assert len(picture) < 60_000


def test_the_picture_of_the_documentation_is_this_one() -> None:
    published = page.PICTURE.read_text(encoding="utf-8")
    if f"Matplotlib v{mpl.__version__}," not in published:
        pytest.skip("another version of matplotlib draws another picture")
    assert published == hot_keys.picture()


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    hot_keys.main([])
    printed = capsys.readouterr().out
    for table in (hot_keys.hottest(), hot_keys.evenness(), hot_keys.remedies()):
        for row in table:
            assert f"| {' | '.join(row)} |" in printed


def zipf(peak: float, skew: float, counters: int) -> Load:
    """So skewed that the nodes decide, and not what lands or is asked for."""
    return Load(
        sustained=peak,
        peak=peak,
        changed=1,
        changed_peak=1,
        hottest=hot_keys.shares(skew, counters)[0],
        counters=counters,
        interval=10,
        retention=30,
        utilisation=0.5,
    )


def test_counters_that_are_too_hot_are_divided_and_others_are_not() -> None:
    few = zipf(1_500, 1.0, 3)  # 818, 409 and 273 of 500 that a row takes
    found = settled(few, EXACT, COSTS, 1.0)
    assert (found.divided, found.plan.parts) == (1, 2)
    found = settled(replace(few, peak=5_390), EXACT, COSTS, 1.0)
    assert (found.divided, found.plan.parts) == (3, 6)  # 2,940, 1,470 and 980
    found = settled(few, LEDGER, COSTS, 1.0)
    assert (found.divided, found.plan.parts) == (0, 1)


def test_few_nodes_are_as_they_come() -> None:
    found = settled(zipf(20_000, 1.0, 1_000), CACHED, COSTS, 1.0)  # 0.4 of a node, half used
    assert (found.plan.redis_nodes, found.spread, found.remedy.placed) == (1, 1.0, False)
    found = settled(zipf(40_000, 1.0, 1_000), CACHED, COSTS, 1.0)  # 0.8, and 1.6 half used
    assert (found.plan.redis_nodes, found.plan.caches, found.divided) == (2, 1, 0)
    assert found.spread == hot_keys.busiest(1.0, 2, found.remedy, 1_000) > 1


def test_many_nodes_have_four_slots_each_and_nothing_larger_than_a_quarter() -> None:
    found = settled(zipf(1_000_000, 1.0, 10_000), CACHED, COSTS, 1.0)
    nodes = found.plan.redis_nodes
    assert nodes > 40  # 20 µs for each of a million, half used
    assert found.plan.caches == math.ceil(nodes / 4)
    assert found.remedy.largest == 1 / (4 * nodes)
    every = hot_keys.shares(1.0, 10_000)
    assert found.plan.parts == math.ceil(every[0] * 4 * nodes)
    last = found.divided
    assert every[last - 1] > found.remedy.largest >= every[last]


@settings(max_examples=25)
@given(st.sampled_from(hot_keys.SKEWS), st.floats(1_000, 2e6))
def test_planned_nodes_carry_the_load(skew: float, peak: float) -> None:
    load = zipf(peak, skew, 5_000)
    found = settled(load, CACHED, COSTS, skew)
    # 20 µs for each increment; one counter lands and is asked for in ten seconds.
    busy = peak * 20 * MICRO + found.plan.asked * 30 * MICRO + 0.1 * 2 * MICRO
    work = hot_keys.work(skew, found.remedy, 5_000)
    loads = hot_keys.nodes(work, found.plan.redis_nodes, found.remedy.placed)
    assert max(loads) * busy <= load.utilisation * (1 + 1e-9)


def test_nodes_that_never_carry_their_load_are_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ROUNDS", 1)
    with pytest.raises(NotSettled, match="nodes"):
        settled(zipf(1_000_000, 1.0, 1_000), CACHED, COSTS, 1.0)


def test_totals_are_kept_for_an_hour_where_values_are_returned() -> None:
    lua = (resources.files("django_counters.stores.redis") / "lua" / "slot.lua").read_text()
    assert f"BASE_TTL, LARGEST_BASE = {KEPT * 1000:.0f}," in lua
    assert f"PLACES, EARLY, META = 8, {REMEMBERED // SLOTS // 2}," in lua  # see acknowledge.lua
    seldom = replace(zipf(1_000, 1.0, 10_000), changed=10, changed_peak=10)
    assert plan(seldom, CACHED, COSTS).totals == pytest.approx(10 * 360 * 100)
    for silent in (replace(CACHED, first=None), EXACT):
        assert plan(seldom, silent, COSTS).totals == 0
