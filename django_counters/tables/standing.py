"""The tables that are counted with, for those who stand below their models.

`Counter`, `SlottedCounter` and `CounterDelta` have managers that need all other rooms, so these
models stand above them. Their columns stand in this room, as abstract models.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, TypeVar

from django.apps import apps
from django.db import connections, models, router

from django_counters.features import features
from django_counters.tables.counter import CounterColumns
from django_counters.tables.delta import DeltaColumns
from django_counters.tables.slot import SlotColumns
from django_counters.types import key_range

_Columns = TypeVar("_Columns", bound=models.Model)


class Standing(Generic[_Columns]):
    """A table by the name of its model, which Django knows as soon as it has loaded all models."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def model(self) -> type[_Columns]:
        """The model. Code in these rooms must not use its manager."""
        model: type[_Columns] = apps.get_model("django_counters", self._name)
        return model

    def rows(self, using: str) -> models.QuerySet[_Columns]:
        """All rows in a database."""
        return self.model._base_manager.using(using)

    def of_namespace(self, name: str, using: str) -> models.QuerySet[_Columns]:
        """All rows of a namespace. SQLite's ``startswith`` would take A for a."""
        first, end = key_range(name)
        return self.rows(using).filter(key__gte=first, key__lt=end)

    def writing(self, using: str | None = None, **hints: Any) -> str:
        """The database that is written to, unless one is named."""
        return using or router.db_for_write(self.model, **hints)

    def reading(self, using: str | None = None, **hints: Any) -> str:
        """The database that is read from, unless one is named."""
        return using or router.db_for_read(self.model, **hints)

    def stands_in(self, using: str) -> bool:
        """Whether the table belongs into a database."""
        return router.allow_migrate_model(using, self.model)


COUNTERS: Standing[CounterColumns] = Standing("Counter")
SLOTS: Standing[SlotColumns] = Standing("SlottedCounter")
ENTRIES: Standing[DeltaColumns] = Standing("CounterDelta")


def databases() -> list[str]:
    """Return all databases of this site that may have the tables of counters."""
    others = {alias for one in features() for alias in one.foreign_databases()}
    return [alias for alias in connections if alias not in others and COUNTERS.stands_in(alias)]
