"""The result of a change: the new value, or that it is not known and why."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Never, NoReturn, Self, TypeAlias, TypeVar
from uuid import UUID

from django_counters.errors import ValueNotKnown

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
