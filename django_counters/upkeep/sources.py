"""Every Redis that may hold increments of a database's counters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from django.db import router

from django_counters.conf import EXACT, TIMEOUT
from django_counters.exceptions import InvalidConfiguration
from django_counters.models import Counter
from django_counters.registry import pending_in, registry
from django_counters.stores.sql.batches import SqlBatches
from django_counters.upkeep.places import columns
from django_counters.write.records import column_of

if TYPE_CHECKING:
    from django_counters.stores.redis.pending import RedisPending

# A flush waits longer than somebody who counts.
PATIENCE = 5.0


def sources(using: str) -> Iterator[RedisPending]:
    """What is declared, and what held something before and can still be found.

    Raises:
        InvalidConfiguration: what is declared is not a Redis.
    """
    if not router.allow_migrate_model(using, Counter):
        return
    known: set[str] = set()
    for cache in declared(using):
        pending = pending_in(cache, max(PATIENCE, TIMEOUT), using)
        known.add(pending.source)
        yield pending
    for name in sorted(set(SqlBatches(using).sources()) - known):
        # It is no alias any more, or was a URL: only a person can find it.
        with suppress(InvalidConfiguration):
            yield pending_in(name, PATIENCE, using)


def declared(using: str) -> dict[str, list[str]]:
    """The caches of cached counters, and the namespaces and fields that declare each."""
    found: dict[str, list[str]] = {}
    for namespace, policy in registry.policies().items():
        if policy.recipe.can.outside:
            found.setdefault(policy.recipe.cache, []).append(f"COUNTERS[{namespace!r}]")
    for model, name in columns(using):
        field = column_of(model, name)
        recipe = field.declared().recipe if field else EXACT
        if recipe.can.outside:
            found.setdefault(recipe.cache, []).append(f"{model._meta.label}.{name}")
    return dict(sorted(found.items()))
