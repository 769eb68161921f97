"""Calls hooks of all installed features: an error in one of them doesn't stop the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from django.db import connections, transaction

from django_counters.features import Feature, installed

logger = logging.getLogger("django_counters")
_Result = TypeVar("_Result")


def contained(using: str) -> AbstractContextManager[object]:
    """Return a block whose error leaves the caller's transaction usable, if there is one.

    PostgreSQL refuses statements in a transaction in which one has failed.
    """
    return transaction.atomic(using) if connections[using].in_atomic_block else nullcontext()


def attempted(
    using: str,
    hook: Callable[[Feature], _Result],
    failed: dict[str, str],
    raised: tuple[type[Exception], ...] = (),
) -> Iterator[_Result]:
    """Call a hook of each installed feature: an error in one of them doesn't stop the others.

    Args:
        using: the database that it uses.
        hook: the call.
        failed: the text of each error is put there, under its app. Its traceback is logged.
        raised: errors of these types are raised instead.
    """
    for app, feature in installed().items():
        block = contained(using)
        try:
            with block:
                result = hook(feature)
        except raised:
            raise
        except Exception as error:
            logger.exception("%s failed in the database %s.", app, using)
            failed[app] = f"{type(error).__name__}: {error}".strip()
        else:
            yield result
