"""Where the numbers of named counters and of records stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections, models

from django_counters.stores.sql.dialects import Pending, Table
from django_counters.stores.sql.dialects.spelling import COUNTER, SHARDS, SLOTS
from django_counters.tables.schema import CounterColumns, ShardColumns, SlotColumns
from django_counters.types import INT8

# Keys of records: as a text, and as a column holds them.


_NOT_A_KEY = (ValidationError, ValueError, TypeError, OverflowError)


class RecordKeys:
    """Turns texts into the primary keys of one model. Holds no connection."""

    def __init__(self, key_field: Any, using: str) -> None:
        self._field = _source(key_field)
        self._using = using
        #: The type of the key in the database.
        self.type = str(key_field.rel_db_type(connections[using]))

    def native(self, text: str) -> Any:
        """A key as its column holds it.

        Raises:
            ValueError, ValidationError, TypeError: it cannot be one.
        """
        return self._field.get_db_prep_value(self._field.to_python(text), connections[self._using])

    def natives(self, texts: Iterable[str]) -> dict[str, Any]:
        """Those that a record of the model can have, as its column holds them."""
        found = {}
        for text in texts:
            try:
                native = self.native(text)
                text.encode()
            except _NOT_A_KEY:
                continue
            if str(native) == text and self._fits(native):
                found[text] = native
        return found

    def _fits(self, native: Any) -> bool:
        if isinstance(native, str):
            # A text that is too long would be cut off, and be another one.
            longest = self._field.max_length
            return "\0" not in native and (longest is None or len(native) <= longest)
        return not isinstance(native, int) or self._in_range(native)

    def _in_range(self, native: int) -> bool:
        ranges = connections[self._using].ops.integer_field_range
        low, high = ranges(self._field.get_internal_type())
        return max(low or INT8[0], INT8[0]) <= native <= min(high or INT8[1], INT8[1])


def _source(field: Any) -> Any:
    """The field that says what a key is: at the end of a chain of parents."""
    while field.is_relation:
        field = field.target_field
    return field


# Tables.


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
