"""The backend: `_cursor` sets the search path if the tenant has changed."""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql.base import DatabaseWrapper as PostgreSQL


class DatabaseWrapper(PostgreSQL):
    """A connection with a tenant.

    Attributes:
        tenant: the name of its schema.
    """

    tenant = "public"
    _path: str | None = None

    def _cursor(self, name: str | None = None) -> Any:
        cursor = super()._cursor(name)  # type: ignore[misc]
        if self._path != self.tenant:
            self._path = self.tenant
            cursor.execute(f'SET search_path = "{self.tenant}"')
        return cursor

    def close(self) -> None:
        self._path = None
        super().close()
