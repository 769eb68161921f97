"""Where the numbers of named counters stand."""

from __future__ import annotations

from typing import Any

from django.db import models

from django_counters.models import Counter, CounterShard
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
