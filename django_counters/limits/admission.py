"""Which counters of a namespace strangers may create, and how many: counted when one is created."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum, auto

from django_counters.access import CREATED, Access
from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.tables.standing import COUNTERS
from django_counters.types import namespace_of, short_key
from django_counters.write import pipeline

logger = logging.getLogger("django_counters")


class Refusal(Enum):
    """Why counters may not come into being."""

    NAME = auto()
    ROOM = auto()


def admit(keys: Iterable[str], access: Access) -> Refusal | None:
    """Let counters of one namespace exist, all or none; why not, where they may not.

    A counter that has a row is let through, whoever made it. Rows of known counters are asked for
    once in a process, so that counting what exists costs nothing more, and no rows are ever
    counted. However many are made, it is one transaction of a few statements.

    Raises:
        CounterUnavailable, ReadOnlyDatabase: the database cannot be asked.
        RetryTransaction: the caller's transaction does not see what others have made.
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
    """Make counters, unless that would be more than may be made over HTTP.

    Whoever makes some in the namespace has its number first, and the next one waits for that.
    """
    namespace = namespace_of(next(iter(keys)))
    counted = created_key(namespace)
    corrections = registry.corrections(NAMED, alias, None)
    with corrections.correcting("the admission"):
        held = corrections.hold([counted]).found[counted]
        absent = _absent(keys, alias)
        if held.value + len(absent) > most:
            return False
        # The project may just have made some of them, which take no room.
        made = corrections.make(sorted(absent))
        corrections.correct({counted: made})
    if made and held.value + made == most:
        says = "The namespace %r is full: %s counters were created over HTTP, as max_counters says."
        logger.warning(says, namespace, most)
    return True


def created_key(namespace: str) -> str:
    """The counter that says how many counters of a namespace were created over HTTP."""
    return short_key(f"{CREATED}:{namespace}")
