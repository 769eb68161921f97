"""The frozen values that pass between the rooms, and the rules for keys and deltas."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from django_counters.errors import InvalidDelta, InvalidKey
from django_counters.measure import Kind

if TYPE_CHECKING:
    from django_counters.projector import ChangeGuard

K = TypeVar("K", bound=Hashable)
# By how much callers count a field; a `Decimal` if it has decimal places.
Amount = Decimal | int
INT8 = (-(2**63), 2**63 - 1)
KEY_LENGTH = 200
# Of a record's key as text, and of app.Model.field, in the tables that name any counter.
SUBJECT_LENGTH = 255
_DIGEST_LENGTH = 32
SMALL = 2**62


class Bounds(NamedTuple):
    """The lowest and the highest value of a counter; None where it is free."""

    floor: int | None = None
    ceiling: int | None = None

    def within(self, capacity: tuple[int, int]) -> Bounds:
        """The same bounds, narrowed to what the column can hold."""
        low, high = capacity
        return self.stricter(Bounds(low, high))

    def stricter(self, other: Bounds) -> Bounds:
        """Both at once: a call can narrow what a namespace or field declares, never widen it."""
        floors = [bound for bound in (self.floor, other.floor) if bound is not None]
        ceilings = [bound for bound in (self.ceiling, other.ceiling) if bound is not None]
        return Bounds(max(floors, default=None), min(ceilings, default=None))

    def hold(self, value: int) -> bool:
        """Whether ``value`` is between them."""
        above = self.floor is None or value >= self.floor
        return above and (self.ceiling is None or value <= self.ceiling)

    def admits(self, value: int, by: int) -> bool:
        """Whether ``value`` may change by ``by``: only the bound it moves towards is asked."""
        if by < 0:
            return self.floor is None or value + by >= self.floor
        return self.ceiling is None or value + by <= self.ceiling


UNBOUNDED = Bounds()


class Cell(NamedTuple):
    """A period of a measure, with certain tags; together with a key it names one row of a kind.

    Attributes:
        measure: the number of the measure in its database.
        period: 1 for a minute, 2 an hour, 3 a day, 4 a week, 5 a month.
        start: when the period begins, in UTC.
        tags: the values of the tags, encoded.
        member: 52 bits that stand for an actor, from 1 on; 0 where the cell is a number.
        kind: the kind of its row.
    """

    measure: int
    period: int
    start: datetime
    tags: str
    member: int
    kind: Kind

    def added(self, by: int) -> int:
        """What a change of the counter by an amount adds."""
        return 1 if self.kind.each else by


#: Measure, key, period, start and tags: a set of members.
Place: TypeAlias = tuple[int, str, int, datetime, str]


def place_of(key: str, cell: Cell) -> Place:
    """Return the set that the member of a cell belongs to."""
    return cell.measure, key, cell.period, cell.start, cell.tags


class Effect(NamedTuple):
    """The effect of a change beside its total; of a member, how often it was seen."""

    cell: Cell
    by: int


class Peak(NamedTuple):
    """A number that a counter is to be raised to, and its bounds. The key is that of a `Delta`."""

    key: Hashable
    number: int
    bounds: Bounds = UNBOUNDED


class Raised(NamedTuple):
    """What became of a `Peak`: the value, and by how much it rose; zero if it was large enough."""

    value: int
    by: int


class Delta(NamedTuple):
    """One signed change of one counter, and the bounds that it has to keep.

    The key is what finds the row: the key of a named counter, the primary key of a record. A route
    (a user, a request) always leads to the same shard. The effects are applied with it or not at
    all, and no cell stands in them twice. The guard looks at them. ``told`` are the tags, the
    moment and the actor of a change with a token, as a text.
    """

    key: Hashable
    by: int
    bounds: Bounds = UNBOUNDED
    route: object = None
    effects: tuple[Effect, ...] = ()
    guard: ChangeGuard | None = None
    told: str = ""

    @property
    def is_bounded(self) -> bool:
        """Whether a bound stands in the direction of the change."""
        bound = self.bounds.floor if self.by < 0 else self.bounds.ceiling
        return bound is not None or self.guard is not None

    @property
    def carried(self) -> tuple[Effect, ...]:
        """The effects that wait with it where it does not land at once."""
        return tuple(effect for effect in self.effects if not effect.cell.kind.derived)


# By key and cell; without a cell, the change of the total.
Sums = Mapping[tuple[K, Cell | None], int]


def sums_of(delta: Delta) -> Iterator[tuple[Cell | None, int]]:
    """The targets of a delta: the total, which has no cell, and its cells."""
    yield None, delta.by
    yield from delta.effects


def deltas_of(sums: Sums[K]) -> tuple[Delta, ...]:
    """Deltas without bounds, one for each key."""
    effects: dict[K, list[Effect]] = {}
    for (key, cell), by in sums.items():
        mine = effects.setdefault(key, [])
        if cell is not None:
            mine.append(Effect(cell, by))
    return tuple(
        Delta(key, sums.get((key, None), 0), effects=tuple(mine)) for key, mine in effects.items()
    )


def merged(parts: Iterable[Sums[K]]) -> dict[tuple[K, Cell | None], int]:
    """The sums of several parts, without those that are zero."""
    sums: dict[tuple[K, Cell | None], int] = {}
    for part in parts:
        for where, by in part.items():
            sums[where] = sums.get(where, 0) + by
    return {where: by for where, by in sums.items() if by}


class Amounts(NamedTuple):
    """The two parts of a value. The total is None where no row holds one."""

    total: int | None
    pending: int

    @property
    def value(self) -> int:
        """total + pending"""
        return (self.total or 0) + self.pending


class Batch(NamedTuple):
    """Deltas that are applied together or not at all; no key stands in it twice.

    A token makes the batch count once, for strategies that keep tokens themselves. ``immediately``:
    at once, also where the caller's transaction may still be rolled back, for strategies that would
    wait for its end.
    """

    deltas: tuple[Delta, ...]
    token: UUID | None = None
    immediately: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """A value and its parts.

    Attributes:
        value: total + pending.
        total: the rolled-up part.
        pending: the part that still waits for its rollup.
        as_of: every change committed before this moment is in the value.
        consistency: how the value was read; ``"exact"`` misses nothing committed before ``as_of``.
    """

    value: int
    total: int
    pending: int
    as_of: datetime
    consistency: str


def check_key(key: object) -> str:
    """Return ``key`` if it is one: 1 to 200 printable characters, no white space, in NFC.

    Raises:
        InvalidKey: it is not, with the reason.
    """
    # The common case first: this runs once for each increment.
    if (
        type(key) is str
        and 0 < len(key) <= KEY_LENGTH
        and key.isascii()
        and key.isprintable()
        and " " not in key
    ):
        return key
    reason = why_no_key(key)
    if reason:
        raise InvalidKey(key=key, reason=reason)
    return str.__str__(key)


def why_no_key(key: object) -> str | None:
    """Say what is wrong with ``key``; None if it is one."""
    if not isinstance(key, str):
        return f"it is a {type(key).__name__}, not a string"
    if not key:
        return "it is empty"
    if any(character.isspace() for character in key):
        return "it contains white space"
    if not key.isprintable():
        return "it contains a character that cannot be printed"
    if not unicodedata.is_normalized("NFC", key):
        return "it is not in Unicode normalization form C"
    if len(key) > KEY_LENGTH:
        return f"it has {len(key)} characters, {KEY_LENGTH} are allowed (see short_key)"
    return None


def short_key(text: str) -> str:
    """Return a key for any text: the text itself if it is a good key, else a stable short form.

    The short form is a readable beginning (so that the namespace stays), ``~``, and 32 hexadecimal
    digits of the text's SHA-256. It depends on the text alone and is the same on every machine.

    Raises:
        InvalidKey: ``text`` is not a string, or is empty.
    """
    reason = why_no_key(text)
    if reason is None:
        return text
    given: object = text
    if not isinstance(given, str) or not given:
        raise InvalidKey(key=text, reason=reason)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    readable = "".join(c if c.isprintable() and not c.isspace() else "_" for c in text)
    beginning = unicodedata.normalize("NFC", readable)[: KEY_LENGTH - _DIGEST_LENGTH - 1]
    # Cutting can part a letter from its mark, and so leave the normal form.
    return f"{unicodedata.normalize('NFC', beginning)}~{digest}"


def namespace_of(key: str) -> str:
    """The part before the first colon; the empty string where there is none."""
    head, colon, _ = key.partition(":")
    return head if colon else ""


def key_range(namespace: str) -> tuple[str, str]:
    """From which key on and before which one the counters of a namespace are."""
    # ";" follows ":".
    return f"{namespace}:", f"{namespace};"


def check_delta(delta: object) -> int:
    """Return ``delta`` as a plain int.

    Raises:
        InvalidDelta: it is not an int (a bool is none), is zero, or does not fit into int8.
    """
    number = check_integer(delta)
    if number == 0:
        raise InvalidDelta(delta=delta, reason="a change by zero means nothing")
    return number


def check_integer(number: object) -> int:
    """Return ``number`` as a plain int if it is an integer in the range of int8."""
    # The common case first: this runs once for each increment.
    if type(number) is int and -SMALL < number < SMALL:
        return number
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidDelta(
            delta=number, reason=f"it is a {type(number).__name__}, only integers are"
        )
    low, high = INT8
    if not low <= number <= high:
        raise InvalidDelta(delta=number, reason="it does not fit into 64 bits")
    return int(number)


def bounds_of_call(floor: object, ceiling: object) -> Bounds:
    """The bounds that one call asks for."""
    if floor is None and ceiling is None:
        return UNBOUNDED
    return Bounds(_check_bound("floor", floor), _check_bound("ceiling", ceiling))


def _check_bound(name: str, bound: object) -> int | None:
    try:
        return None if bound is None else check_integer(bound)
    except InvalidDelta as error:
        raise InvalidDelta(delta=bound, reason=f"as a {name}, {error.reason}") from None


def check_mapping(deltas: object) -> Mapping[object, object]:
    """Return ``deltas`` if it is a mapping of keys to deltas."""
    if not isinstance(deltas, Mapping):
        raise InvalidDelta(delta=deltas, reason="a mapping of keys to integers is needed")
    return deltas


def counter_of(label: str, key: Hashable) -> str:
    """What Redis and parcels call a counter. A named one has no label, and no space in its key."""
    return f"{label} {key}" if label else str(key)
