"""Ends expired holds, page by page, in any number of processes; deletes old ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db import DEFAULT_DB_ALIAS, connections, router, transaction

from django_counters.contrib.holds.holding import AT_ONCE, expire_of, store
from django_counters.contrib.holds.models import CounterHold
from django_counters.errors import InvalidAdjustment, InvalidKey, RecordMissing
from django_counters.features import Done, Drift
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.session import Session
from django_counters.tables import CounterIncident
from django_counters.upkeep import present_name
from django_counters.write.changes import Ref
from django_counters.write.records import ref_of

# How many holds one statement ends.
_TOKENS = 500


def expire_holds(using: str = DEFAULT_DB_ALIAS) -> int:
    """Give back all expired holds; return their number.

    Each counter has a transaction of its own. Holds of a deleted record also end. Holds of a
    deleted model become an incident, because their record can't be found. The clock is the
    database's.
    """
    if not router.allow_migrate_model(using, CounterHold):
        return 0
    ended = 0
    while page := store(using).due(AT_ONCE):
        now = sum(_expired(label, key, using) for label, key in page)
        ended += now
        if not now:
            # Another process is ending them.
            break
    return ended


def expire(using: str) -> Done:
    """Run the job ``expire``."""
    expired = expire_holds(using)
    return Done(f"{expired} holds given back", {"database": using, "expired": expired})


def _expired(label: str, key: str, using: str) -> int:
    """Give back the expired holds of one counter."""
    try:
        return expire_of(_ref(label, key, using))
    except RecordMissing:
        return len(_ended(label, key, using))
    except (InvalidAdjustment, InvalidKey) as error:
        quantities = _ended(label, key, using)
        detail = {"quantity": sum(quantities), "reason": str(error)}
        record(CounterIncident.Kind.LOST, f"{label}:{key}", detail, using)
        return len(quantities)


def _ref(label: str, key: str, using: str) -> Ref:
    """Return a counter by its present or former name."""
    try:
        return ref_of(label, key, using)
    except InvalidAdjustment:
        return ref_of(present_name(label), key, using)


def _ended(label: str, key: str, using: str) -> list[int]:
    """End the expired holds of a deleted counter."""
    return store(using).expire(label, key, AT_ONCE)


def prune_holds(using: str = DEFAULT_DB_ALIAS) -> int:
    """Delete ended holds that expired over 30 days ago, in batches; return their number."""
    return store(using).prune() if router.allow_migrate_model(using, CounterHold) else 0


def overdue(using: str) -> Iterator[Drift]:
    """Yield the counters of holds that expired over an hour ago and weren't given back."""
    if router.allow_migrate_model(using, CounterHold):
        for label, key, quantity in store(using).forgotten():
            yield Drift(f"{label}:{key}" if label else key, 0, quantity)


def end_holds(owner: str, keys: Sequence[str], using: str) -> None:
    """End the holds of counters without giving anything back.

    Skips holds that another transaction is ending: it may wait for totals locked by this one.
    """
    if not router.allow_migrate_model(using, CounterHold):
        return
    held = CounterHold._base_manager.using(using).filter(
        field=owner, key__in=keys, state=CounterHold.State.HELD
    )
    skips = connections[using].features.has_select_for_update_skip_locked
    # A signal that a project sends by hand comes without a transaction.
    with transaction.atomic(using=using):
        tokens = list(held.select_for_update(skip_locked=skips).values_list("pk", flat=True))
        for start in range(0, len(tokens), _TOKENS):
            some = tokens[start : start + _TOKENS]
            held.filter(pk__in=some).update(state=CounterHold.State.RELEASED)


def forget_holder(actor: str, using: str, *, dry_run: bool) -> int:
    """Clear the actor of a person's holds; return the number of holds."""
    if not router.allow_migrate_model(using, CounterHold):
        return 0
    with Session(using).translated():
        rows = CounterHold._base_manager.using(using).filter(actor=actor)
        return rows.count() if dry_run else rows.update(actor="")
