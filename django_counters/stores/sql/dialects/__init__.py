"""The only SQL text: topics as all databases write them, and a folder for each database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from django.db import connections
from django.db.utils import NotSupportedError
from django.utils.module_loading import import_string

from django_counters.stores.sql.dialects.base import Dialect
from django_counters.stores.sql.dialects.spelling import Pending, Table

__all__ = ["Dialect", "Pending", "Table", "dialect_of"]

_HOMES: Mapping[str, str] = MappingProxyType(
    {
        "postgresql": f"{__name__}.postgresql.dialect.PostgreSQL",
        "sqlite": f"{__name__}.sqlite.dialect.SQLite",
        "mysql": f"{__name__}.mysql.dialect.MySQL",
    }
)


class _Dialects(dict[str, Dialect]):
    """The dialects by vendor. A dialect is imported on first use: a project needs one of them."""

    def __missing__(self, vendor: str) -> Dialect:
        return self.setdefault(vendor, import_string(_HOMES[vendor])())

    def __contains__(self, vendor: object) -> bool:
        return vendor in _HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)


DIALECTS = _Dialects()


def dialect_of(using: str) -> Dialect:
    """The dialect of a database alias; opens no connection.

    Raises:
        NotSupportedError: counters cannot be kept in this kind of database.
    """
    vendor = connections[using].vendor
    try:
        return DIALECTS[vendor]
    except KeyError:
        raise NotSupportedError(
            f"Counters cannot be kept in {vendor} (database {using!r}); "
            f"supported are: {', '.join(DIALECTS)}."
        ) from None
