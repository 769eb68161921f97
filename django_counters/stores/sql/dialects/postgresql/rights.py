"""Rows with a floor in PostgreSQL."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

from django_counters.stores.sql.dialects.postgresql.totals import address_of
from django_counters.stores.sql.dialects.rights import Rights


class ShardRights(Rights):
    """Takes from shards."""

    @cached_property
    def take(self) -> str:
        """Take away."""
        return f"SELECT v, n FROM django_counters_take(%s, {self._spread.cap}, %s, %s)"

    def arrange(
        self,
        by: int,
        floor: int,
        key: Hashable,
        address: tuple[Any, ...],  # noqa: ARG002 - the key says it
    ) -> tuple[Any, ...]:
        """The parameters of ``take``."""
        return (-by, floor, key)


class SlotRights(Rights):
    """Takes from slots."""

    @cached_property
    def take(self) -> str:
        """Take away."""
        table, address = self._table, address_of(self._table)
        slot = f"django_counters_take_slot(%s, {self._spread.cap}, %s, {address}, {table.value})"
        value = f"{table.value} + django_counters_slots({address}) + %s"
        return f"SELECT {value}, {slot} FROM {table.name} WHERE {table.key} = %s"

    def arrange(
        self, by: int, floor: int, key: Hashable, address: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The parameters of ``take``."""
        return (address[0], by, -by, floor, address[0], key)
