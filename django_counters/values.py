"""What calls return where a plain number would not say all of it, or where there is none."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self
from uuid import UUID

from django_counters.exceptions import ValueNotKnown


class Unknown:
    """Stands for a value that is not known. Whatever asks for the number raises an error.

    It is no int, so that nothing can take a wrong number from it, also not code written in C.
    """

    __slots__ = ("key",)
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


class Collected(Unknown):
    """Returned for an increment that is collected."""

    __slots__ = ()
    reason = "it is applied when the collector ends"


class Appended(Unknown):
    """Returned for an entry of the ledger: an append reads nothing, so it knows no value.

    Attributes:
        key: the counter.
        token: the token of the entry; a call with it is a replay. None for an entry of a batch.
        replayed: whether it was there already, so that this call counted nothing.
    """

    __slots__ = ("replayed", "token")
    reason = "an entry is appended without reading the counter; ask value() for it"

    def __init__(self, key: str, token: UUID | None, *, replayed: bool = False) -> None:
        super().__init__(key)
        self.token = token
        self.replayed = replayed


class Sent(Unknown):
    """Returned for an increment of a cached counter whose new value could not be told.

    Attributes:
        key: the counter.
        replayed: whether a call with the same token was counted before; False where it is not known
            yet.
    """

    __slots__ = ("_why", "replayed")
    COMMIT = "it is counted when the transaction commits"
    DATABASE = "it is counted, but the database could not be asked for the total"
    SPILLED = "Redis is away: it is counted in the database, what waits in Redis is not known"

    def __init__(self, key: str, why: str, *, replayed: bool = False) -> None:
        super().__init__(key)
        self._why = why
        self.replayed = replayed

    @property
    def reason(self) -> str:  # type: ignore[override]
        """Why the value is not known."""
        return self._why


class Counted(int):
    """The value that a call with a token returned when it counted.

    Attributes:
        replayed: whether it was counted before, so that this call counted nothing.
    """

    replayed: bool

    def __new__(cls, value: int, *, replayed: bool = False) -> Self:
        number = super().__new__(cls, value)
        number.replayed = replayed
        return number

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)

    def __reduce_ex__(self, protocol: Any) -> tuple[type[int], tuple[int]]:
        # A copy or a pickle is a plain number.
        return self.__reduce__()


class CountedMany(dict[str, int]):
    """The values that a call for many counters with a token returned when it counted them.

    Attributes:
        replayed: whether they were counted before, so that this call counted nothing.
    """

    replayed: bool = False
