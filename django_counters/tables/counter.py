"""Named counters: one row each, and the keys of all tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.lookups import BuiltinLookup, IContains, IEndsWith, IExact, IStartsWith
from django.utils.translation import gettext_lazy as _

from django_counters.tables.total import TotalField, WideTotalField
from django_counters.types import KEY_LENGTH

if TYPE_CHECKING:
    _CharField = models.CharField[str, str]
    _Lookup = BuiltinLookup[Any]
else:
    _CharField = models.CharField
    _Lookup = BuiltinLookup


class KeyField(_CharField):
    """A text primary key that servers compare byte by byte.

    Every writer then locks rows in the same order, in any locale of the database, and one
    index serves both equality and prefixes. On MySQL it also keeps keys apart that differ by their
    case, or by spaces at the end.
    """

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, str | None]:
        parameters = dict(super().db_parameters(connection))
        if connection.vendor == "postgresql":
            parameters["collation"] = "C"
        if connection.vendor == "mysql":
            is_mariadb = getattr(connection, "mysql_is_mariadb", False)
            parameters["collation"] = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
        return parameters

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        if connection.vendor == "postgresql":
            # Django adds a second, pattern-matching index to types that start with "varchar".
            return f"character varying({self.max_length})"
        return super().db_type(connection)


class _AnyCase(_Lookup):
    """Compares without case, also where the collation of the column keeps cases apart."""

    def process_lhs(self, compiler: Any, connection: Any, lhs: Any = None) -> tuple[str, Any]:
        sql, params = super().process_lhs(compiler, connection, lhs)
        return _lowered(sql, connection), params

    def get_rhs_op(self, connection: Any, rhs: str) -> str:
        return super().get_rhs_op(connection, _lowered(rhs, connection))


def _lowered(sql: str, connection: BaseDatabaseWrapper) -> str:
    return f"LOWER({sql})" if connection.vendor == "mysql" else sql


for _lookup in (IContains, IEndsWith, IExact, IStartsWith):
    KeyField.register_lookup(type(_lookup.__name__, (_AnyCase, _lookup), {}))


class CounterColumns(models.Model):
    """The columns of a `Counter`."""

    key = KeyField(_("key"), max_length=KEY_LENGTH, primary_key=True)
    # Never indexed: PostgreSQL then updates the row within its page, without touching any index.
    value = TotalField(_("value"), default=0)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)
    # The part of the value that did not come through the ledger; NULL where nothing ever did.
    outside: WideTotalField = WideTotalField(  # type: ignore[misc]
        _("outside the ledger"), null=True, blank=True, default=None, editable=False
    )

    class Meta:
        abstract = True
        verbose_name = _("counter")
        verbose_name_plural = _("counters")
        permissions = [
            ("adjust_counter", _("Can adjust a counter")),
            ("increment_counter", _("Can increment a counter over HTTP")),
            ("decrement_counter", _("Can decrement a counter over HTTP")),
        ]

    def __str__(self) -> str:
        return str(self.key)
