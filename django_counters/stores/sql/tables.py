"""Where the numbers of named counters and of records stand."""

from __future__ import annotations

from typing import Any

from django.db import models

from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.stores.sql.dialects import Pending, Table


def column(model: type[models.Model], name: str) -> str:
    """The column of a field."""
    field: Any = model._meta.get_field(name)
    return str(field.column)


NAMED = Table(
    name=Counter._meta.db_table,
    key=column(Counter, "key"),
    value=column(Counter, "value"),
    touched=column(Counter, "updated_at"),
    inserts=True,
    outside=column(Counter, "outside"),
    pending=Pending(
        name=CounterShard._meta.db_table,
        owner=(column(CounterShard, "key"),),
        number=column(CounterShard, "shard"),
        value=column(CounterShard, "value"),
    ),
)


def slots(model: type[models.Model], name: str) -> Pending:
    """The slots of one counter of a model's records."""
    return Pending(
        name=SlottedCounter._meta.db_table,
        owner=(
            column(SlottedCounter, "record_type"),
            column(SlottedCounter, "record_id"),
            column(SlottedCounter, "name"),
        ),
        number=column(SlottedCounter, "slot"),
        value=column(SlottedCounter, "count"),
        record=(model, name),
    )


def records(model: type[models.Model], name: str) -> Table:
    """The counter of a model's records that has no column: its totals stand among its slots."""
    return Table(
        name="",
        key="",
        value="",
        inserts=True,
        pending=slots(model, name),
        label=f"{model._meta.label}.{name}",
    )
