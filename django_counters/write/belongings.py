"""Deletes the rows that belong to a counter beside its value.

Each table of the core that has rows of a counter stands in `BELONGINGS`. Tables of other apps are
those of `OfCounter`. Forgetting a counter and deleting a record ask `deleted_tables`, and list no
table themselves.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any

from django.apps import apps
from django.db import models

from django_counters.features import forgetting
from django_counters.measure import Kind, Measure
from django_counters.registry import registry
from django_counters.tables.measured import OfCounter, OfPeriod
from django_counters.types import namespace_of
from django_counters.write.change import Ref

Among = Callable[[type[models.Model], Kind | None], bool]
# How many records one statement forgets.
_IDS = 500


class Fate(Enum):
    """What becomes of the rows of a counter that is forgotten."""

    #: They are parts of its value, which the caller takes away.
    VALUE = "value"
    DELETED = "deleted"
    KEPT = "kept"


#: By the names of models: all of the core that have rows of counters.
BELONGINGS: Mapping[str, Fate] = MappingProxyType(
    {
        "Counter": Fate.VALUE,
        "CounterShard": Fate.VALUE,
        "SlottedCounter": Fate.VALUE,
        "CounterDelta": Fate.VALUE,
        "CounterCell": Fate.DELETED,
        "CounterOccurrence": Fate.DELETED,
        # They are about people, or about what another table says.
        "CounterAdjustment": Fate.KEPT,
        "AdjustmentRequest": Fate.KEPT,
        "CounterArchive": Fate.KEPT,
        "CounterIncident": Fate.KEPT,
        # A replay returns its result, which names the counter until the token expires.
        "CounterToken": Fate.KEPT,
    }
)


def kind_of(table: type[models.Model]) -> Kind | None:
    """Return the kind of a table's rows; None if they don't belong to periods."""
    return table.of_kind if issubclass(table, OfPeriod) else None


def deleted_tables() -> list[type[models.Model]]:
    """Return the tables whose rows are deleted, in the order in which changes write them."""
    named = (
        apps.get_model("django_counters", name)
        for name, fate in BELONGINGS.items()
        if fate is Fate.DELETED
    )

    def order(table: type[models.Model]) -> int:
        kind = kind_of(table)
        return 0 if kind is None else kind.order

    others = [table for table in named if not issubclass(table, OfCounter)]
    return [*sorted(OfCounter.tables(), key=order), *others]


def forget_rows(
    owner: str,
    name: str,
    measure: Measure | None,
    keys: Sequence[str],
    using: str,
    *,
    among: Among = lambda *_: True,
) -> Mapping[str, int]:
    """Delete what belongs to counters beside their values.

    Run it in the transaction that takes the values away.

    Args:
        owner: ``app.Model.field`` of their records; empty for named counters.
        name: what their measure is called.
        measure: the declaration; None if they declare none now.
        keys: the keys, or the texts of primary keys.
        using: the database.
        among: whether rows are deleted, given their table and kind.

    Returns:
        How many rows of each table were deleted.
    """
    stored = registry.measures(using).find(name)
    gone: Tally[str] = Tally()
    for start in range(0, len(keys), _IDS):
        some = keys[start : start + _IDS]
        rows: list[models.QuerySet[Any]] = []
        for model in deleted_tables():
            if not among(model, kind_of(model)):
                continue
            if not issubclass(model, OfCounter):
                # Its rows are of named counters.
                rows += [] if owner else [model._base_manager.using(using).filter(key__in=some)]
            elif stored is not None:
                # Before any of them is deleted: some are found by the cells.
                rows += model.of_keys(measure, stored.id, some, using)
        for of_table in rows:
            gone[of_table.model.__name__] += of_table.delete()[0]
    return gone


def forget_named(ref: Ref, among: Among) -> Mapping[str, int]:
    """Do the same for one named counter."""
    name = ref.measure.name if ref.measure else namespace_of(ref.text)
    return forget_rows("", name, ref.measure, [ref.text], ref.using, among=among)


def forget_added(owner: str, keys: Sequence[str], using: str) -> None:
    """Delete what other apps keep of counters. Run it in the same transaction."""
    for start in range(0, len(keys), _IDS):
        for feature in forgetting():
            feature.forget(owner, keys[start : start + _IDS], using)
