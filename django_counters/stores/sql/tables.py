"""Where the numbers of named counters and of records stand."""

from __future__ import annotations

from typing import Any

from django.db import models

from django_counters.stores.sql.dialects import Pending, Table
from django_counters.stores.sql.dialects.tables import COUNTER, SHARDS, SLOTS
from django_counters.tables.counter import CounterColumns
from django_counters.tables.shard import ShardColumns
from django_counters.tables.slot import SlotColumns


def column(model: type[models.Model], name: str) -> str:
    """The column of a field."""
    field: Any = model._meta.get_field(name)
    return str(field.column)


NAMED = Table(
    name=COUNTER,
    key=column(CounterColumns, "key"),
    value=column(CounterColumns, "value"),
    touched=column(CounterColumns, "updated_at"),
    inserts=True,
    outside=column(CounterColumns, "outside"),
    pending=Pending(
        name=SHARDS,
        owner=(column(ShardColumns, "key"),),
        number=column(ShardColumns, "shard"),
        value=column(ShardColumns, "value"),
    ),
)


def slots(model: type[models.Model], name: str) -> Pending:
    """The slots of one counter of a model's records."""
    return Pending(
        name=SLOTS,
        owner=(
            column(SlotColumns, "record_type"),
            column(SlotColumns, "record_id"),
            column(SlotColumns, "name"),
        ),
        number=column(SlotColumns, "slot"),
        value=column(SlotColumns, "count"),
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
