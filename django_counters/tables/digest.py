"""The digests that name rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

if TYPE_CHECKING:
    _BinaryField = models.BinaryField[bytes, bytes]
else:
    _BinaryField = models.BinaryField


class DigestField(_BinaryField):
    """The bytes of a digest. MySQL has no index of all of a BLOB: there they are a VARBINARY."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        if connection.vendor == "mysql":
            return "varbinary(64)"
        return super().db_type(connection)
