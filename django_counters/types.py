"""Types of counters: deltas, effects, readings, results."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Never,
    NoReturn,
    Self,
    TypeAlias,
    TypeVar,
)
from uuid import UUID

from django_counters.errors import InvalidDelta, InvalidKey, ValueNotKnown
from django_counters.measure import Kind

if TYPE_CHECKING:
    from django_counters.projector import ChangeGuard

# -- Frozen values that pass between the parts of the core, and the rules for keys and deltas.

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
    """One row of a kind, beside the key of its counter.

    Attributes:
        kind: its kind.
        values: one for each column of `Kind.own`, in its order.
    """

    kind: Kind
    values: tuple[Any, ...]

    def added(self, by: int) -> int:
        """What a change of the counter by an amount adds."""
        return 1 if self.kind.each else by


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


# -- The result of a change: the new value, or that it is not known and why.

# A format that only fills a line: a width, and on which side.
_WIDTH = re.compile(r"(.?[<>^])?([1-9]\d*)?")


class Counted(int):
    """The new value: a subclass of ``int``, and equal to the plain number.

    Attributes:
        value: the same, as a plain int.
        replayed: whether a call with the same token was counted before; see `Replayed`.
    """

    __slots__ = ()

    replayed: ClassVar[bool] = False

    @property
    def value(self) -> int:
        """The new value."""
        return int(self)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)

    def __reduce_ex__(self, protocol: Any) -> tuple[type[int], tuple[int]]:
        # A copy or a pickle is a plain number.
        return self.__reduce__()


class Replayed(Counted):
    """The value that an earlier call with the same token returned. This call counted nothing."""

    __slots__ = ()

    replayed: ClassVar[bool] = True


class Unknown(str):
    """A change was made, or will be, and its new value is not known. Reads ``unknown`` as a text.

    It is a text so that f-strings, templates, ``%s`` and JSON show it. Calculating and comparing
    raise `TypeError`. It is equal to nothing but itself.

    Attributes:
        value: None.
        key: the counter.
        reason: why the value is not known.
        replayed: whether a call with the same token was counted before; False where it is not
            known yet.
    """

    __slots__ = ("key", "reason", "replayed")

    COLLECTED: ClassVar = "it is applied when the collector ends"
    COMMIT: ClassVar = "it is counted when the transaction commits"
    DATABASE: ClassVar = "it is counted, but the database could not be asked for the total"
    UNCHANGED: ClassVar = "nothing was added, so the value was not asked for"
    UNASKED: ClassVar = 'it is counted; its option "returns" asks for no value'
    SPILLED: ClassVar = (
        "Redis is away: it is counted in the database, and increments in Redis are not known"
    )

    key: str
    reason: str
    replayed: bool

    def __new__(cls, key: str, reason: str, *, replayed: bool = False) -> Self:
        unknown = super().__new__(cls, "unknown")
        unknown.key = key
        unknown.reason = reason
        unknown.replayed = replayed
        return unknown

    @property
    def value(self) -> None:
        """None: there is no number."""
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()}: {self.key}: {self.reason}>"

    def __format__(self, spec: str) -> str:
        # A format of numbers would raise, as the comma of f"{views:,}", or cut the text.
        return super().__format__(spec) if _WIDTH.fullmatch(spec) else str(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.key, self.reason)

    def _refuse(self, *_: Never) -> NoReturn:
        raise TypeError(f"{self!r} is no number")

    # A text would be repeated, joined or sorted.
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = _refuse  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = _refuse  # type: ignore[assignment]
    __int__ = __float__ = _refuse


class Appended(Unknown):
    """An entry was appended to the ledger, which reads nothing, and so knows no value.

    Attributes:
        token: the token of the entry; a call with it is a replay. None for an entry of a batch.
    """

    __slots__ = ("token",)

    token: UUID | None

    def __new__(cls, key: str, token: UUID | None, *, replayed: bool = False) -> Self:
        reason = "an entry is appended without reading the counter; ask value() for it"
        appended = super().__new__(cls, key, reason, replayed=replayed)
        appended.token = token
        return appended

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.key, self.token)


#: The result of a change. ``result.value`` is an int or None.
Result: TypeAlias = Counted | Unknown

#: The new values of a batch, by key, as a strategy knows them.
NewValues: TypeAlias = Mapping[Hashable, int | Unknown]


class CountedMany(dict[str, Result]):
    """The results of a call for many counters, by key.

    Attributes:
        replayed: whether a call with the same token was counted before.
    """

    replayed: bool

    def __init__(self, values: Mapping[str, int | Unknown], *, replayed: bool = False) -> None:
        super().__init__(
            {key: result_of(value, replayed=replayed) for key, value in values.items()}
        )
        self.replayed = replayed


def result_of(value: int | Unknown, *, replayed: bool = False) -> Result:
    """The result that tells a new value."""
    if type(value) is not int and isinstance(value, Result):
        return value
    return Replayed(value) if replayed else Counted(value)


_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class LedgerPage(Generic[_Entry]):
    """Entries of a ledger that follow each other. Iterates over them, and has their number.

    Attributes:
        entries: in the order in which they are followed.
        position: after the last of them: a text of at most 100 characters, for the next call.
    """

    entries: tuple[_Entry, ...]
    position: str

    def __iter__(self) -> Iterator[_Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class NoNumber:
    """A counter whose number was not loaded. All uses of the number raise an error.

    It is no int, so that nothing can take a wrong number from it, also not code written in C.
    """

    reason: ClassVar[str]

    def __init__(self, key: str) -> None:
        self.key = key

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()}: {self.key}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ValueNotKnown(key=self.key, reason=self.reason)

    def _unknown(self, *_: object) -> NoReturn:
        raise ValueNotKnown(key=self.key, reason=self.reason)

    __str__ = __format__ = __bool__ = __int__ = __index__ = __float__ = __hash__ = _unknown
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unknown
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _unknown
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __round__ = _unknown
    __neg__ = __pos__ = __abs__ = __invert__ = __reduce_ex__ = _unknown
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _unknown
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _unknown


@dataclass(frozen=True, slots=True)
class AppendedMany:
    """What became of many entries.

    Attributes:
        appended: how many were counted by this call.
        replayed: how many had a token that was used before, for the same change.
    """

    appended: int
    replayed: int
