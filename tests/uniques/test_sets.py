"""Sketches are the sets that they were made of, until a set is too large to be kept."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from itertools import accumulate, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_counters.contrib.uniques import InvalidSketch
from django_counters.contrib.uniques.sketches import ERROR, KEPT, MEMBERS, Sketch, union
from django_counters.errors import CounterError
from django_counters.measure import HIGHEST, REGISTERS

EMPTY = Sketch()
ZEROS = bytes(REGISTERS)


def drawn(seed: object, number: int) -> list[int]:
    return random.Random(f"{seed}").sample(range(1, MEMBERS + 1), number)


def registers(members: Iterable[int]) -> bytes:
    """By the definition: the last 14 digits name the register, the zeros before are counted."""
    found = dict.fromkeys(range(REGISTERS), 0)
    for member in members:
        digits = f"{member:052b}"
        place, rest = int(digits[-14:], 2), digits[:-14]
        found[place] = max(found[place], len(rest) - len(rest.rstrip("0")) + 1)
    return bytes(found.values())


def packed(*members: int) -> bytes:
    return struct.pack(f">{len(members)}Q", *members)


# A few members that meet often, those at the edges, and crowds around the limit.
few = st.sets(
    st.integers(1, 9) | st.sampled_from([2**38, 2**51, MEMBERS]) | st.integers(1, MEMBERS)
)
crowds = st.builds(drawn, st.integers(0, 3), st.sampled_from([200, KEPT - 1, KEPT, KEPT + 1, 900]))
sets = few | crowds.map(set) | st.builds(set.union, few, crowds.map(set))
ranks = st.dictionaries(st.integers(0, 40) | st.just(REGISTERS - 1), st.integers(1, HIGHEST))
sketches = st.builds(Sketch.with_registers, sets.map(Sketch.of), st.just({}) | ranks)

DAMAGED = [
    ("x", b"", "'x' is no kind"),
    ("", b"", "'' is no kind"),
    ("m", packed(1, 2)[:-1], "15 bytes are not up to 512 members of 8"),
    ("m", packed(*range(1, KEPT + 2)), "4104 bytes are not"),
    ("m", packed(1, 3, 2), "do not ascend"),
    ("m", packed(1, 2, 2), "do not ascend"),
    ("m", packed(0, 1), "0 is no member"),
    ("m", packed(1, MEMBERS + 1), "4503599627370496 is no member"),
    ("m", ZEROS, "16384 bytes are not"),
    ("r", ZEROS[:-1], "16383 registers are not 16384"),
    ("r", ZEROS + b"\0", "16385 registers are not 16384"),
    ("r", b"", "0 registers are not 16384"),
    ("r", ZEROS[:-1] + b"\x80", "rank 128, the highest is 39"),
    ("r", b"\xff" + ZEROS[1:], "rank 255, the highest is 39"),
]


class TestUnion:
    @given(sketches, sketches, sketches)
    def test_it_does_not_matter_in_which_order_or_how_often(
        self, one: Sketch, two: Sketch, three: Sketch
    ) -> None:
        assert one | two == two | one
        assert (one | two) | three == one | (two | three) == union([three, one, two, one])
        assert one | one == one == one | EMPTY == union([one])
        assert (one | two) | one == one | two

    @given(st.lists(sets, max_size=4))
    def test_it_is_the_sketch_of_the_union(self, parts: list[set[int]]) -> None:
        every = set().union(*parts)
        found = union(map(Sketch.of, parts))
        assert found == Sketch.of(every)
        if len(every) <= KEPT:
            assert found == Sketch("m", packed(*sorted(every)))
            assert (found.count(), found.is_exact, found.error) == (len(every), True, 0.0)
        else:
            assert found == Sketch("r", registers(every))
            assert (found.is_exact, found.error) == (False, 0.0081)

    @given(sketches, ranks, ranks)
    def test_each_register_has_the_highest_rank(
        self, sketch: Sketch, some: dict[int, int], others: dict[int, int]
    ) -> None:
        both = {place: max(some.get(place, 0), others.get(place, 0)) for place in some | others}
        apart = sketch.with_registers(some) | EMPTY.with_registers(others)
        assert apart == sketch.with_registers(both) | sketch

    def test_every_two_ranks_are_compared_beside_every_others(self) -> None:
        """What is borrowed for one register must not come from the next."""
        pairs = list(product(range(HIGHEST + 1), repeat=2)) * 10
        one, other = (bytes(column).ljust(REGISTERS, b"\0") for column in zip(*pairs, strict=True))
        greatest = bytes(map(max, one, other))
        assert Sketch("r", one) | Sketch("r", other) == Sketch("r", greatest)

    def test_one_more_than_are_kept_leaves_registers_of_them_all(self) -> None:
        members = drawn("edge", 513)
        kept = Sketch.of(members[:-1])
        assert (kept.count(), kept.is_exact, kept.error) == (512, True, 0.0)
        assert kept | Sketch.of(members[:9]) == kept
        more = kept | Sketch.of(members[-1:])
        assert more == Sketch("r", registers(members)) == Sketch.of(members) == more | kept
        assert abs(more.count() - 513) <= 3 * ERROR * 513

    def test_one_by_one_or_many_together_nobody_is_lost(self) -> None:
        members = drawn("long", 2000)
        one_by_one = [*accumulate((Sketch.of([each]) for each in members), Sketch.__or__)]
        assert [each.count() for each in one_by_one[:KEPT]] == [*range(1, KEPT + 1)]
        assert one_by_one[-1].body == registers(members)
        parts = [members[start : start + 300] for start in range(0, 2000, 100)]
        assert union(map(Sketch.of, parts)) == one_by_one[-1] == Sketch.of(iter(members * 2))

    def test_of_none_it_is_empty(self) -> None:
        assert union([]) == Sketch.of([]) == EMPTY
        assert (EMPTY.count(), Sketch("r", ZEROS).count()) == (0, 0)


class TestWithout:
    @given(sets, st.integers(1, 9))
    def test_a_member_that_is_kept_can_be_taken_out(self, members: set[int], who: int) -> None:
        sketch = Sketch.of(members)
        left = sketch.without(who)
        assert left == (Sketch.of(members - {who}) if len(members) <= KEPT else sketch)


class TestDamaged:
    """Nothing is counted from what nobody has written."""

    @pytest.mark.parametrize(
        ("kind", "body", "reason"),
        DAMAGED,
        ids=[reason for *_, reason in DAMAGED],
    )
    def test_it_is_refused(self, kind: str, body: bytes, reason: str) -> None:
        with pytest.raises(InvalidSketch, match=f"^This isn't a sketch of a set: .*{reason}"):
            Sketch(kind, body)

    @pytest.mark.parametrize("rank", [HIGHEST + 1, 64, 127])
    def test_a_rank_that_no_member_has_is_found_before_it_counts(self, rank: int) -> None:
        sketch = Sketch("r", ZEROS[:-1] + bytes([rank]))
        full = Sketch("r", bytes([HIGHEST]) * REGISTERS)
        for use in (
            sketch.count,
            lambda: sketch | EMPTY,
            lambda: full | sketch,
            lambda: union([full, sketch, full]),
            lambda: sketch.with_registers({3: 4}),
        ):
            with pytest.raises(InvalidSketch, match=f"rank {rank}, the highest is 39"):
                use()

    @pytest.mark.parametrize("member", [0, -1, MEMBERS + 1])
    @pytest.mark.parametrize("beside", [0, KEPT, 5 * KEPT])
    def test_what_is_no_member_is_refused(self, member: int, beside: int) -> None:
        members = [*range(1, beside + 1), member]
        with pytest.raises(InvalidSketch, match=f" {member} is no member"):
            Sketch.of(members)

    @pytest.mark.parametrize(
        ("place", "rank"), [(-1, 1), (REGISTERS, 1), (0, 0), (0, -1), (0, HIGHEST + 1)]
    )
    def test_no_member_is_there(self, place: int, rank: int) -> None:
        with pytest.raises(InvalidSketch, match=f"rank {rank} in register {place}"):
            EMPTY.with_registers({place: rank})

    def test_it_is_an_error_of_a_value(self) -> None:
        assert issubclass(InvalidSketch, CounterError)
        assert issubclass(InvalidSketch, ValueError)
