"""The only place that spells keys of Redis. No text of users is part of a key."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from django_counters.clock import utc
from django_counters.effects import UnknownKind, kind_marked, kind_of_members
from django_counters.measure import HIGHEST, REGISTERS, Kind
from django_counters.types import Cell

SLOTS = 16
PLACES = 8
# The first characters of the fields for increments with tokens, and of those for cells. No field of
# a counter begins so and has white space.
TOKEN = "\0k"  # noqa: S105
CELL = "#"
# Those of fields that say how many actors of a set have fields, and of registers of all others.
COUNT, RANKS = "#n", "#r"
# Registers of one field. Each of them is a character, this one where no member was seen.
CHUNK, NOBODY = 256, "0"


class SlotKeys:
    """The keys of the amount that waits in one Redis for one database.

    The keys of a slot have a hash tag of their own, so that a cluster keeps them together.
    ``space`` is what `space_of` says of the database.
    """

    def __init__(self, using: str, space: str) -> None:
        self.space = space
        self._tags = [f"djc:{{{using}:{space}:{slot}}}" for slot in range(SLOTS)]
        self._keys = [
            (f"{tag}:p", f"{tag}:c", *(f"{tag}:b{place}" for place in range(PLACES)))
            for tag in self._tags
        ]
        self.flight = f"{self._tags[0]}:f"
        self.owner = f"{self._tags[0]}:o"

    def keys(self, slot: int) -> tuple[str, ...]:
        """What every script declares: the open generation, the known totals, the ring."""
        return self._keys[slot]

    def place(self, slot: int, place: int) -> str:
        """One place of the ring."""
        return self._keys[slot][2 + place]

    def token(self, slot: int, token: str) -> str:
        """The memory of a token beside a slot, given by its hexadecimal digits."""
        return f"{self._tags[slot]}:t:{token}"


def space_of(part: str, prefix: str) -> str:
    """What tells sites apart that share a Redis and have a prefix each, and tests from them."""
    return _digits(f"{prefix}\0{part}")


def state(kind: str, digest: bytes, prefix: str = "") -> str:
    """Return the key of a state that isn't part of a counter, such as one of another app.

    ``kind``: a letter that no other kind has; ``l`` and ``t`` are taken.
    """
    site = f":{_digits(prefix)}" if prefix else ""
    return f"djc:{kind}{site}:{digest.hex()}"


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]


def cell_field(cell: Cell, counter: str) -> str:
    """The field of a generation that stands for a cell of a counter, beside that of the counter."""
    kind, values = cell
    last = values[-1] if kind.has_members else kind.mark
    numbers, text = _beginning(kind, values[:-1] if kind.has_members else values)
    # Without numbers, the dot tells a mark from `COUNT` and `RANKS`.
    return f"{CELL}{numbers}{'.' if last else ''}{last} {text} {counter}"


# The rows of one change, the members of a set, and all counters in the same minute begin alike.
@lru_cache(maxsize=1000)
def _beginning(kind: Kind, values: tuple[Any, ...]) -> tuple[str, str]:
    """The numbers of a cell with dots between them, without a member, and its text."""
    numbers, text = [], ""
    for column, value in zip(kind.own, values, strict=False):
        if column.type == "text":
            text = value
        else:
            numbers.append(column.plain(value))
    return ".".join(map(str, numbers)), text


def cell_in(field: str) -> tuple[str, Cell] | None:
    """The counter and the cell that a field stands for; None where it is that of a counter.

    Raises:
        UnknownKind: no installed app has its kind, so its table is not known.
        ValueError: it is neither.
    """
    if not field.startswith(CELL) or " " not in field:
        return None
    field.encode()  # raises where another process has written other bytes
    numbers, text, counter = field[1:].split(" ", 2)
    first, _, last = numbers.rpartition(".")
    mark = last if last.isalpha() else ""
    kind = kind_marked(mark)
    if not mark and (kind is None or numbers.count(".") + bool(numbers) != _numbers(kind)):
        kind = kind_of_members()
    if kind is None or (kind.has_members and int(last) < 1):
        raise UnknownKind(field)
    if kind.has_members:
        return counter, Cell(kind, (*_values(kind, f"{first}.0", text)[:-1], int(last)))
    return counter, Cell(kind, _values(kind, first if mark else numbers, text))


@lru_cache(maxsize=1000)
def _numbers(kind: Kind) -> int:
    """How many columns of a cell are numbers."""
    return sum(column.type != "text" for column in kind.own)


@lru_cache(maxsize=1000)
def _values(kind: Kind, numbers: str, text: str) -> tuple[Any, ...]:
    """The values of a cell; many cells have the same."""
    words = numbers.split(".") if numbers else []
    for place, column in enumerate(kind.own):
        if column.type == "text":
            words.insert(place, text)
    try:
        return tuple(column.parsed(word) for column, word in zip(kind.own, words, strict=True))
    except (OverflowError, OSError) as error:
        raise ValueError(numbers) from error


def cells_in(fields: Iterable[str]) -> tuple[list[Cell], list[str]]:
    """The cells that fields stand for, and the fields of kinds that no installed app has.

    Raises:
        ValueError: one of them is none of ours.
    """
    cells, unknown = [], []
    for field in fields:
        try:
            found = cell_in(field)
        except UnknownKind:
            unknown.append(field)
        else:
            cells += [found[1]] if found else []
    return cells, unknown


def set_in(field: str) -> tuple[str, Cell, int | None] | None:
    """The counter and the set that a field says something of, and the chunk if it has registers.

    The set is the cell of the member 0. None where it is another field.

    Raises:
        UnknownKind: no installed app has members.
        ValueError: it is none of ours.
    """
    if not field.startswith((COUNT, RANKS)) or " " not in field:
        return None
    field.encode()  # raises where another process has written other bytes
    kind, _, numbers = field.partition(".")
    if kind != COUNT and kind[2:] not in _CHUNKS:
        raise ValueError(field)
    members = kind_of_members()
    if members is None:
        raise UnknownKind(field)
    numbers, text, counter = numbers.split(" ", 2)
    # A set has the numbers of its members, except the last one.
    return counter, Cell(members, _values(members, f"{numbers}.0", text)), _CHUNKS.get(kind[2:])


def ranks_in(text: str) -> bytes:
    """The ranks of a chunk of registers.

    Raises:
        ValueError: it is none.
    """
    ranks = text.encode().translate(_RANKS)
    if len(ranks) != CHUNK or max(ranks) > HIGHEST:
        raise ValueError(text)
    return ranks


_CHUNKS = {str(number): number for number in range(REGISTERS // CHUNK)}
_RANKS = bytes((character - ord(NOBODY)) % 256 for character in range(256))


def slot_of(counter: str) -> int:
    """The slot of a counter, the same in every process and on every machine."""
    return zlib.crc32(counter.encode()) % SLOTS


def proposed(slot: int) -> str:
    """A new generation of a slot: the digits of a UUIDv7 that ends with the slot."""
    # Made for each request, so it is put together without the objects in between.
    chance = os.urandom(8).hex()
    moment = int(utc().timestamp() * 1000)
    return f"{moment:012x}7{chance[:3]}8{chance[3:]}{slot:02x}"
