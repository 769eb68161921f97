"""What stands for a value that is not known yet."""

from __future__ import annotations

from typing import NoReturn

from django_counters.exceptions import ValueNotKnown


class Collected:
    """Returned for an increment that is collected. Whatever asks for the number raises an error.

    It is no int, so that nothing can take a wrong number from it, also not code written in C.
    """

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key

    def __repr__(self) -> str:
        return f"<collected: {self.key}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ValueNotKnown(key=self.key)

    def _unknown(self, *_: object) -> NoReturn:
        raise ValueNotKnown(key=self.key)

    __str__ = __format__ = __bool__ = __int__ = __index__ = __float__ = __hash__ = _unknown
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unknown
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _unknown
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __round__ = _unknown
    __neg__ = __pos__ = __abs__ = __invert__ = __reduce_ex__ = _unknown
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _unknown
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _unknown
