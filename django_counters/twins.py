"""Makes the async twin of a function or a method, and marks those that templates must not call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])


def alters_data(work: _F) -> _F:
    """Mark a function that changes data: Django's templates don't call it, nor its twin."""
    work.alters_data = True  # type: ignore[attr-defined]
    return work


def twin(work: Callable[_P, _R]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """Return the same for async code, run in Django's thread for synchronous code.

    The twin of a method calls the object's method of that name, so a subclass overrides both.
    """
    is_method = "." in work.__qualname__.rpartition("<locals>.")[2]

    @wraps(work)
    async def awaited(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        from asgiref.sync import sync_to_async

        if not is_method:
            return await sync_to_async(work)(*args, **kwargs)
        owner, *rest = args
        result: _R = await sync_to_async(getattr(owner, work.__name__))(*rest, **kwargs)
        return result

    awaited.__name__ = f"a{work.__name__}"
    awaited.__qualname__ = work.__qualname__.removesuffix(work.__name__) + awaited.__name__
    awaited.__doc__ = f"`{work.__name__}` for async code."
    return awaited
