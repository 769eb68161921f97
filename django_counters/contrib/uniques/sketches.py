"""Sketches: the stored data of a set, so that its members can be counted. Values only.

A set has members, which are numbers of 52 bits. A small set keeps them all and is exact. A larger
one keeps 16,384 registers, in which no member can be found again. Registers say how many there
were, with a standard error of 0.81 %. Two sketches make the sketch of both sets. No member is
counted twice in it.

Registers are those of HyperLogLog. A member has a place, the register that its low 14 bits name.
It has a rank, one more than the number of zeros at the end of its other 38 bits. A register
keeps the highest rank that it has seen.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import lt
from struct import pack, unpack

from django_counters.contrib.uniques.errors import InvalidSketch
from django_counters.measure import HIGHEST, MEMBER_BITS, PLACE_BITS, REGISTERS

MEMBERS = (1 << MEMBER_BITS) - 1  # how many there are: 1 to this; 0 is none
KEPT = 512  # members of an exact set
WIDTH = 8  # bytes of a member
ERROR = round(1.04 / math.sqrt(REGISTERS), 4)
EXACT, ROUGH = "m", "r"

_RANKS = bytes(range(HIGHEST + 1))
_ENDS = 1 << HIGHEST - 1  # stops the search for a bit where there is none
_BITS = [int.from_bytes(bytes([1 << bit]) * REGISTERS, "big") for bit in range(8)]  # of each
_TOPS = _BITS[7]
# What marks a register that has one of eight ranks: a bit for each of them.
_MARKS = [
    bytes(1 << rank - low if low <= rank < low + 8 else 0 for rank in range(256))
    for low in range(0, HIGHEST + 1, 8)
]
_COMMON = _RANKS[:16]  # all but a few registers have one of these ranks


@dataclass(frozen=True, slots=True)
class Sketch:
    """The stored data of a set.

    Attributes:
        kind: "m" keeps up to 512 members; "r" keeps registers.
        body: the members, in ascending order, 8 bytes each, the highest byte first; or a byte for
            the rank of each register.

    Raises:
        InvalidSketch: the body is none of its kind. A rank that no member has is found where
            registers are counted or united, which costs less there.
    """

    kind: str = EXACT
    body: bytes = b""

    def __post_init__(self) -> None:
        if self.kind == EXACT:
            _check_kept(self.body)
        elif self.kind != ROUGH:
            raise InvalidSketch(reason=f"{self.kind!r:.20} is no kind of sketch")
        elif len(self.body) != REGISTERS:
            raise InvalidSketch(reason=f"{len(self.body)} registers are not {REGISTERS}")
        elif not self.body.isascii():  # the top bits have to be free
            _check_ranks(self.body)

    @classmethod
    def of(cls, members: Iterable[int]) -> Sketch:
        """The sketch of these members, in any order, however often each of them comes.

        Raises:
            InvalidSketch: one is no member.
        """
        gathered = Union()
        gathered.add_members(members)
        return gathered.sketch()

    def __or__(self, other: Sketch) -> Sketch:
        return union((self, other))

    def with_registers(self, ranks: Mapping[int, int]) -> Sketch:
        """The same set and members of which only registers are known: ranks by place.

        Raises:
            InvalidSketch: there is no such register, or no member has such a rank.
        """
        if not ranks:
            return self
        loose = bytearray(REGISTERS)
        for place, rank in ranks.items():
            if not (0 <= place < REGISTERS and 0 < rank <= HIGHEST):
                raise InvalidSketch(reason=f"no member has rank {rank} in register {place}")
            loose[place] = rank
        return self | Sketch(ROUGH, bytes(loose))

    def keeps(self, member: int) -> bool:
        """Whether a member is in the set and can be found there: members of registers cannot be
        found."""
        return self.is_exact and member in _unpacked(self.body)

    def without(self, member: int) -> Sketch:
        """The same set without a member. Registers remain as they are: no member is in them."""
        if not self.is_exact:
            return self
        return Sketch.of(set(_unpacked(self.body)) - {member})

    def count(self) -> int:
        """How many members the set has: all of them, or about so many.

        Raises:
            InvalidSketch: a register has a rank that no member has.
        """
        return len(self.body) // WIDTH if self.is_exact else estimate(self.body)

    @property
    def is_exact(self) -> bool:
        """Whether each member is kept."""
        return self.kind == EXACT

    @property
    def error(self) -> float:
        """The standard error of the count, as a part of it."""
        return 0.0 if self.is_exact else ERROR


def union(sketches: Iterable[Sketch]) -> Sketch:
    """The sketch of all that is in any of them. It takes them one by one.

    Raises:
        InvalidSketch: a register has a rank that no member has.
    """
    gathered = Union()
    for sketch in sketches:
        gathered.add(sketch)
    return gathered.sketch()


class Union:
    """The union of the sketches so far: at most 512 members, and registers of all others."""

    __slots__ = ("_greatest", "_loose", "_members")

    def __init__(self) -> None:
        self._members: set[int] = set()
        self._loose: bytearray | None = None  # of members that were too many
        self._greatest: int | None = None  # of the registers of sketches, as one number

    def add(self, sketch: Sketch) -> None:
        """Add all that is in a sketch."""
        if sketch.is_exact:
            self.add_members(_unpacked(sketch.body))
        else:
            self.add_registers(sketch.body)

    def add_members(self, members: Iterable[int]) -> None:
        """Add members."""
        left = iter(members)
        while some := set(islice(left, KEPT + 1)):
            self._members |= some
            if len(self._members) > KEPT:
                self._let_go()

    def add_registers(self, body: bytes | bytearray) -> None:
        """Add the registers of a sketch."""
        number = int.from_bytes(body, "big")
        self._greatest = number if self._greatest is None else _greater(self._greatest, number)

    def sketch(self) -> Sketch:
        """The sketch of all that was added.

        Raises:
            InvalidSketch: a register has a rank that no member has.
        """
        if self._loose is None and self._greatest is None:
            return Sketch(EXACT, _packed(self._members))
        self._let_go()
        if self._loose:
            self.add_registers(self._loose)
        body = (self._greatest or 0).to_bytes(REGISTERS, "big")
        _check_ranks(body)
        return Sketch(ROUGH, body)

    def _let_go(self) -> None:
        """Leave nothing of the members but their registers."""
        if self._members:
            _check_members(self._members)
            self._loose = self._loose or bytearray(REGISTERS)
            raise_registers(self._loose, self._members)
            self._members.clear()


def raise_registers(registers: bytearray, members: Iterable[int]) -> None:
    """Let registers see members."""
    for member in members:
        place, rest = member & REGISTERS - 1, member >> PLACE_BITS | _ENDS
        rank = (rest & -rest).bit_length()
        if registers[place] < rank:
            registers[place] = rank


def _greater(one: int, other: int) -> int:
    """The higher rank of each register; 16,384 of them are compared at once.

    The top bit of a register is free. It is lent to one side before the other is subtracted, and
    is still there where nothing had to be borrowed: where the one is as high as the other.
    """
    held = ((one | _TOPS) - other) & _TOPS
    ours = held - (held >> 7)  # the other seven bits of those registers
    return other ^ (one ^ other) & ours


def estimate(body: bytes) -> int:
    """About how many members were seen by registers.

    The improved raw estimator of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog
    sketches", 2017, arXiv 1702.01284. It is as good for few members as for many. It needs no
    table.

    Raises:
        InvalidSketch: a register has a rank that no member has.
    """
    empty, *between, full = _registers_by_rank(body)
    total = REGISTERS * _tau(1 - full / REGISTERS)
    for number in reversed(between):
        total = (total + number) / 2
    total += REGISTERS * _sigma(empty / REGISTERS)
    if not total:
        return MEMBERS  # all registers are full
    return min(round(REGISTERS**2 / (2 * math.log(2) * total)), MEMBERS)


def _registers_by_rank(body: bytes) -> list[int]:
    """How many registers have each rank. Eight ranks are marked at once, and marks are counted."""
    _check_ranks(body)
    numbers: list[int] = []
    for marks in _MARKS:
        if len(numbers) == len(_COMMON):
            body = body.translate(None, _COMMON)
        marked = int.from_bytes(body.translate(marks), "big")
        numbers += [(marked & bit).bit_count() for bit in _BITS]
    return numbers


def _sigma(part: float) -> float:
    """The series of empty registers: part + the sum of part^(2^k) * 2^(k-1) for k from 1 on."""
    if part == 1:
        return math.inf
    total, before, weight = part, -1.0, 1.0
    while total != before:
        part *= part
        before, total = total, total + part * weight
        weight += weight
    return total


def _tau(part: float) -> float:
    """The series of full registers: a third of 1 - part less (1 - part^(2^-k))^2 * 2^-k."""
    if part in (0, 1):
        return 0.0
    total, before, weight = 1 - part, -1.0, 1.0
    while total != before:
        part = math.sqrt(part)
        weight /= 2
        before, total = total, total - (1 - part) ** 2 * weight
    return total / 3


def _packed(members: Collection[int]) -> bytes:
    _check_members(members)
    return pack(f">{len(members)}Q", *sorted(members))


def _unpacked(body: bytes) -> tuple[int, ...]:
    return unpack(f">{len(body) // WIDTH}Q", body)


def _check_kept(body: bytes) -> None:
    number, rest = divmod(len(body), WIDTH)
    if rest or number > KEPT:
        raise InvalidSketch(reason=f"{len(body)} bytes are not up to {KEPT} members of {WIDTH}")
    members = _unpacked(body)
    if not all(map(lt, members, members[1:])):
        raise InvalidSketch(reason="its members do not ascend")
    _check_members(members[:1] + members[-1:])


def _check_members(members: Collection[int]) -> None:
    for member in (min(members), max(members)) if members else ():
        if not 0 < member <= MEMBERS:
            raise InvalidSketch(reason=f"{member} is no member: those are 1 to {MEMBERS}")


def _check_ranks(body: bytes) -> None:
    """Each byte that is left when all ranks are deleted is one that no member has."""
    wrong = body.translate(None, _RANKS)
    if wrong:
        raise InvalidSketch(reason=f"a register has rank {wrong[0]}, the highest is {HIGHEST}")
