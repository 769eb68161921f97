"""How far the count of registers is from the truth, and that the hash is as good as chance."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_counters.contrib.uniques.sketches import (
    ERROR,
    MEMBERS,
    Sketch,
    estimate,
    raise_registers,
    union,
)
from django_counters.measure import HIGHEST, REGISTERS, member_in, member_of

SEEDS = 200
SIZES = (600, 2_500, 10_000, 20_000, 50_000)
TOGETHER = 4  # sets of the greatest size that are united
KEY = b"k" * 32
MEMBERS_OF = ["c3b847fb71ec0", "e2597069a36ff", "bbbd3f9e94b63"]


def grown(seed: int) -> Iterator[bytes]:
    """The registers of one set at each of the sizes; twins are one in many millions."""
    draw = random.Random(seed).getrandbits
    found = bytearray(REGISTERS)
    for before, size in pairwise((0, *SIZES)):
        raise_registers(found, (draw(52) or 1 for _ in range(size - before)))
        yield bytes(found)


@pytest.fixture(scope="module")
def by_size() -> dict[int, list[Sketch]]:
    """Sketches of each size, one of each seed; the largest are unions of some."""
    columns = zip(*map(grown, range(SEEDS)), strict=True)
    found = {
        size: [Sketch("r", body) for body in column]
        for size, column in zip(SIZES, columns, strict=True)
    }
    last = found[SIZES[-1]]
    found[SIZES[-1] * TOGETHER] = [
        union(last[start : start + TOGETHER]) for start in range(0, SEEDS, TOGETHER)
    ]
    return found


@pytest.mark.parametrize("size", [*SIZES, SIZES[-1] * TOGETHER])
def test_the_error_is_the_one_that_is_told(by_size: dict[int, list[Sketch]], size: int) -> None:
    errors = [sketch.count() / size - 1 for sketch in by_size[size]]
    number, rms = len(errors), math.sqrt(statistics.fmean(error**2 for error in errors))
    # Of 200 that are normal, half a one is further off; three are in one run of 400.
    assert sum(abs(error) > 3 * ERROR for error in errors) <= 2
    assert max(map(abs, errors)) < 4.5 * ERROR
    assert abs(statistics.fmean(errors)) < 3 * ERROR / math.sqrt(number)
    # Three standard errors of the deviation. As long as many registers are empty it is less.
    spread = 3 / math.sqrt(2 * number)
    assert rms < ERROR * (1 + spread)
    assert rms > ERROR * ((1 if size > 3 * REGISTERS else 0.6) - spread)


@pytest.mark.parametrize("size", [1, 10, 100])
def test_few_members_are_counted_well_even_by_registers(size: int) -> None:
    """As where Redis had registers of them: they are as good as exact."""
    for seed in range(20):
        found = bytearray(REGISTERS)
        raise_registers(found, random.Random(seed).sample(range(1, MEMBERS), size))
        assert abs(estimate(bytes(found)) - size) <= size * 0.02 + 1


@given(st.lists(st.integers(0, HIGHEST), min_size=1, max_size=300))
def test_it_is_the_formula_of_the_paper(ranks: list[int]) -> None:
    """With all of its sums written out."""
    body = bytes(ranks).ljust(REGISTERS, bytes(ranks[-1:]))
    empty, full = body.count(0) / REGISTERS, 1 - body.count(HIGHEST) / REGISTERS
    total = math.fsum(2.0**-rank for rank in body if 0 < rank < HIGHEST)
    if empty == 1:
        assert estimate(body) == 0
        return
    total += REGISTERS * (empty + sum(empty ** (2**k) * 2 ** (k - 1) for k in range(1, 25)))
    saturated = 1 - full - sum((1 - full ** (2.0**-k)) ** 2 * 2.0**-k for k in range(1, 60))
    total += REGISTERS * saturated / 3 * 2.0 ** (1 - HIGHEST) if full else 0
    truth = REGISTERS**2 / (2 * math.log(2) * total) if total else MEMBERS
    assert estimate(body) == pytest.approx(min(truth, MEMBERS), rel=1e-6, abs=0.51)


def test_registers_that_are_full_count_no_more_than_there_are() -> None:
    assert estimate(bytes([HIGHEST]) * REGISTERS) == MEMBERS
    assert MEMBERS * 0.5 < estimate(bytes([HIGHEST] * 8191 + [HIGHEST - 1] * 8193)) <= MEMBERS


def test_the_member_of_a_text_is_part_of_the_contract() -> None:
    """A server of another version must find the same visitor."""
    members = [member_of("17", KEY), member_of("größe", KEY), member_of("17", b"l" * 32)]
    assert [f"{member:013x}" for member in members] == MEMBERS_OF


@pytest.mark.parametrize(
    ("digest", "member"),
    [
        ("0000000000000fff", 1),
        ("0000000000001000", 1),
        ("0000000000002fff", 2),
        ("ffffffffffffffff", MEMBERS),
    ],
)
def test_a_member_is_the_first_52_bits_and_never_zero(digest: str, member: int) -> None:
    assert member_in(bytes.fromhex(digest)) == member


def test_ids_that_follow_each_other_are_spread_as_if_drawn() -> None:
    """Chi-squared of their registers, and each bit is set as often as not."""
    number = 100_000
    members = [member_of(f"user:{each}", KEY) for each in range(number)]
    assert len(set(members)) == number
    assert 1 <= min(members) <= max(members) <= MEMBERS
    places = Counter(member % REGISTERS for member in members)
    expected = number / REGISTERS
    chi = sum((places[place] - expected) ** 2 / expected for place in range(REGISTERS))
    assert abs(chi - REGISTERS) < 4 * math.sqrt(2 * REGISTERS)
    for bit in range(52):
        ones = sum(member >> bit & 1 for member in members)
        assert abs(ones - number / 2) < 4.5 * math.sqrt(number) / 2
    assert abs(Sketch.of(members).count() / number - 1) < 3 * ERROR
