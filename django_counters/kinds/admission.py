"""How many counters a namespace may have that strangers create: counted when one is created."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import IntegrityError, router

from django_counters.access import CREATED
from django_counters.conf import EXACT
from django_counters.exceptions import CeilingExceeded
from django_counters.kinds import number
from django_counters.kinds.registry import registry
from django_counters.kinds.tables import NAMED
from django_counters.models import Counter
from django_counters.types import Batch, Bounds, Delta, namespace_of, short_key


def admit(keys: Iterable[str], most: int) -> list[str]:
    """Let counters exist; those for which there is no room any more.

    A counter that has a row is let through, whoever made it; of a namespace the first ``most``
    that have none get one. Rows of known counters are asked for once in a process, so that
    counting what exists costs nothing more, and no rows are ever counted.

    Raises:
        CounterUnavailable, ReadOnlyDatabase: the database cannot be asked.
    """
    alias = router.db_for_write(Counter)
    known = registry.admitted(alias)
    unknown = [key for key in keys if key not in known]
    if not unknown:
        return []
    with number.all_or_nothing(alias):
        rows = Counter._base_manager.using(alias).filter(key__in=unknown)
        present = set(rows.values_list("key", flat=True))
    refused = _without_room(set(unknown) - present, most, alias)
    known.update(set(unknown) - set(refused))
    return refused


def _without_room(keys: Iterable[str], most: int, alias: str) -> list[str]:
    """Make counters. Where one namespace is full, that is asked only once."""
    refused: list[str] = []
    full: set[str] = set()
    for key in sorted(keys):
        if namespace_of(key) in full or not _made(key, most, alias):
            full.add(namespace_of(key))
            refused.append(key)
    return refused


def _made(key: str, most: int, alias: str) -> bool:
    try:
        with number.all_or_nothing(alias):
            _, created = Counter._base_manager.using(alias).get_or_create(key=key)
            if created:
                _count(namespace_of(key), most, alias)
    except CeilingExceeded:
        return False
    except IntegrityError:
        # Somebody else has made it, whom this transaction does not see: REPEATABLE READ.
        return True
    return True


def _count(namespace: str, most: int, alias: str) -> None:
    delta = Delta(short_key(f"{CREATED}:{namespace}"), 1, Bounds(ceiling=most))
    registry.strategy(EXACT, NAMED, alias).apply(Batch((delta,)))
