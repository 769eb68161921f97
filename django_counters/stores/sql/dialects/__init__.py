"""The only SQL text: topics as all databases write them, and a folder for each database."""

from __future__ import annotations

from django.db import connections
from django.db.utils import NotSupportedError

from django_counters.stores.sql.dialects.base import Dialect
from django_counters.stores.sql.dialects.mysql.dialect import MySQL
from django_counters.stores.sql.dialects.postgresql.dialect import PostgreSQL
from django_counters.stores.sql.dialects.sqlite.dialect import SQLite
from django_counters.stores.sql.dialects.tables import Pending, Table

__all__ = ["Dialect", "Pending", "Table", "dialect_of"]

DIALECTS: dict[str, Dialect] = {
    "postgresql": PostgreSQL(),
    "sqlite": SQLite(),
    "mysql": MySQL(),
}


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
