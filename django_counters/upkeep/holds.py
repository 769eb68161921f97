"""Holds whose time is over: given back, page by page, by as many processes as there are."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import DEFAULT_DB_ALIAS, router

from django_counters.exceptions import InvalidAdjustment, InvalidKey, RecordMissing
from django_counters.features import Drift
from django_counters.registry import registry
from django_counters.stores.sql.incidents import record
from django_counters.tables import CounterHold, CounterIncident
from django_counters.upkeep.renames import present_name
from django_counters.write.change import Ref
from django_counters.write.holds import AT_ONCE, expire
from django_counters.write.records import ref_of


def expire_holds(using: str = DEFAULT_DB_ALIAS) -> int:
    """Give back all that is held beyond its time; how many holds that were.

    Each counter in a transaction of its own. Holds of a deleted record end as well. Holds of a
    deleted model become an incident, because their record cannot be found. The clock is that of the
    database.
    """
    if not router.allow_migrate_model(using, CounterHold):
        return 0
    ended = 0
    while page := registry.holds(using).due(AT_ONCE):
        now = sum(_expired(label, key, using) for label, key in page)
        ended += now
        if not now:
            # Another process is ending them.
            break
    return ended


def _expired(label: str, key: str, using: str) -> int:
    """Give back what is over of one counter."""
    try:
        return expire(_ref(label, key, using))
    except RecordMissing:
        return len(_ended(label, key, using))
    except (InvalidAdjustment, InvalidKey) as error:
        quantities = _ended(label, key, using)
        detail = {"quantity": sum(quantities), "reason": str(error)}
        record(CounterIncident.Kind.LOST, f"{label}:{key}", detail, using)
        return len(quantities)


def _ref(label: str, key: str, using: str) -> Ref:
    """A counter, by the name that it had."""
    try:
        return ref_of(label, key, using)
    except InvalidAdjustment:
        return ref_of(present_name(label), key, using)


def _ended(label: str, key: str, using: str) -> list[int]:
    """End what is over of a counter that is gone."""
    return registry.holds(using).expire(label, key, AT_ONCE)


def prune_holds(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget holds that have ended 30 days ago; how many. In small batches."""
    if not router.allow_migrate_model(using, CounterHold):
        return 0
    return registry.holds(using).prune()


def forgotten(using: str) -> Iterator[Drift]:
    """Counters with holds that were over an hour ago: the held quantities are still missing from
    them."""
    if router.allow_migrate_model(using, CounterHold):
        for label, key, quantity in registry.holds(using).forgotten():
            yield Drift(f"{label}:{key}" if label else key, 0, quantity)
