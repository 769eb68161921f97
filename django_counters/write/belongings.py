"""Deletes the rows that belong to a counter beside its value.

Each table that has rows of a counter stands in `BELONGINGS`: forgetting a counter and deleting a
record ask it, and list no table themselves.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any

from django.apps import apps
from django.db import models

from django_counters.features import forgetting
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.tables.measured import OfCounter

# How many records one statement forgets.
_IDS = 500


class Fate(Enum):
    """What becomes of the rows of a counter that is forgotten."""

    #: They are parts of its value, which the caller takes away.
    VALUE = "value"
    DELETED = "deleted"
    KEPT = "kept"


#: By the names of models: all that have rows of counters.
BELONGINGS: Mapping[str, Fate] = MappingProxyType(
    {
        "Counter": Fate.VALUE,
        "CounterShard": Fate.VALUE,
        "SlottedCounter": Fate.VALUE,
        "CounterDelta": Fate.VALUE,
        "CounterActor": Fate.DELETED,
        "CounterCell": Fate.DELETED,
        "CounterRank": Fate.DELETED,
        "CounterOccurrence": Fate.DELETED,
        "CounterMember": Fate.DELETED,
        "CounterUnique": Fate.DELETED,
        "CounterSample": Fate.DELETED,
        # They are about people, or about what another table says.
        "CounterAdjustment": Fate.KEPT,
        "AdjustmentRequest": Fate.KEPT,
        "CounterArchive": Fate.KEPT,
        "CounterIncident": Fate.KEPT,
        # A replay returns its result, which names the counter until the token expires.
        "CounterToken": Fate.KEPT,
    }
)

DELETED = tuple(name for name, one in BELONGINGS.items() if one is Fate.DELETED)


def forget_rows(
    owner: str,
    name: str,
    measure: Measure | None,
    keys: Sequence[str],
    using: str,
    *,
    among: Collection[str] = DELETED,
) -> Mapping[str, int]:
    """Delete what belongs to counters beside their values.

    Run it in the transaction that takes the values away.

    Args:
        owner: ``app.Model.field`` of their records; empty for named counters.
        name: what their measure is called.
        measure: the declaration; None if they declare none now.
        keys: the keys, or the texts of primary keys.
        using: the database.
        among: the tables.

    Returns:
        How many rows of each table were deleted.
    """
    stored = registry.measures(using).find(name)
    gone: Tally[str] = Tally()
    for start in range(0, len(keys), _IDS):
        some = keys[start : start + _IDS]
        rows: list[models.QuerySet[Any]] = []
        for table in DELETED:
            model = apps.get_model("django_counters", table)
            if table not in among:
                continue
            if not issubclass(model, OfCounter):
                # Its rows are of named counters.
                rows += [] if owner else [model._base_manager.using(using).filter(key__in=some)]
            elif stored is not None:
                # Before any of them is deleted: ranks are found by the cells.
                rows += model.of_keys(measure, stored.id, some, using)
        for of_table in rows:
            gone[of_table.model.__name__] += of_table.delete()[0]
    return gone


def forget_added(owner: str, keys: Sequence[str], using: str) -> None:
    """Delete what other apps keep of counters. Run it in the same transaction."""
    for start in range(0, len(keys), _IDS):
        for feature in forgetting():
            feature.forget(owner, keys[start : start + _IDS], using)
