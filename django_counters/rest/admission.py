"""Admits new counters that requests create: by their names, and up to a number."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum, auto

from django_counters.access import Access, created_key
from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.tables.standing import COUNTERS
from django_counters.types import namespace_of
from django_counters.write import pipeline

logger = logging.getLogger("django_counters")


class Refusal(Enum):
    """Why counters may not be created."""

    NAME = auto()
    ROOM = auto()


def admit(keys: Iterable[str], access: Access) -> Refusal | None:
    """Create counters of one namespace that have no row, all or none; why not, if they may not be.

    A process asks once for the row of a counter, so that counting an existing counter costs
    nothing more. Creating any number of counters is one transaction of a few statements, none of
    which counts rows.

    Raises:
        CounterUnavailable, ReadOnlyDatabase: the database cannot be asked.
        RetryTransaction: the caller's transaction does not see what others have created.
    """
    alias = COUNTERS.writing()
    known = registry.admitted(alias)
    unknown = {key for key in keys if key not in known}
    if not unknown:
        return None
    with pipeline.all_or_nothing(alias):
        absent = _absent(unknown, alias)
    if not all(map(access.admits_name, absent)):
        return Refusal.NAME
    if absent and not _made(absent, access.max_counters, alias):
        return Refusal.ROOM
    known.update(unknown)
    return None


def _absent(keys: set[str], alias: str) -> set[str]:
    rows = COUNTERS.rows(alias).filter(key__in=keys)
    return keys.difference(rows.values_list("key", flat=True))


def _made(keys: set[str], most: int, alias: str) -> bool:
    """Create counters, unless the namespace would have more than ``most`` of them.

    Concurrent callers wait for each other: they hold the counter of created counters first.
    """
    namespace = namespace_of(next(iter(keys)))
    counted = created_key(namespace)
    corrections = registry.corrections(NAMED, alias)
    with corrections.correcting("the admission"):
        held = corrections.hold([counted]).found[counted]
        absent = _absent(keys, alias)
        if held.value + len(absent) > most:
            return False
        # The project may just have created some of them, which take no room.
        made = corrections.make(sorted(absent))
        corrections.correct({counted: made})
    if made and held.value + made == most:
        says = "The namespace %r is full: %s counters were created over HTTP, as max_counters says."
        logger.warning(says, namespace, most)
    return True
