"""The column that holds a total: written by increments, never by ``save()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.query_utils import DeferredAttribute
from django.db.models.sql.compiler import SQLUpdateCompiler

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.expressions import Combinable

    _BigIntegerField = models.BigIntegerField[int | Combinable, int]
else:
    _BigIntegerField = models.BigIntegerField


class Loaded(int):
    """What an instance holds of a total: an int that may be stale by the time it is written."""

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)

    def __reduce_ex__(self, protocol: Any) -> tuple[type[int], tuple[int]]:
        # A copy or a pickle is a plain number.
        return self.__reduce__()


class TotalAttribute(DeferredAttribute):
    """Keeps a plain int on the instance, and hands it out as one that was loaded."""

    field: TotalField

    def __get__(self, instance: models.Model | None, cls: type[models.Model] | None = None) -> Any:
        if instance is None:
            return self
        value = super().__get__(instance, cls)
        return self.hand_out(value, instance) if isinstance(value, int) else value

    def __set__(self, instance: models.Model, value: Any) -> None:
        instance.__dict__[self.field.attname] = int(value) if isinstance(value, Loaded) else value

    def hand_out(self, value: int, instance: models.Model) -> Loaded:  # noqa: ARG002
        return Loaded(value)


class TotalField(_BigIntegerField):
    """A BIGINT that an instance inserts with its row and never writes again.

    ``save()``, ``save(update_fields=…)``, ``update_or_create()`` and ``bulk_update()`` leave the
    stored number as it is, whatever the instance holds. An expression (``F("views") + 1``) is
    written: the database evaluates it on the present number. So is ``QuerySet.update(views=0)``,
    which says what it does. Loading a fixture writes the numbers of the fixture.
    """

    descriptor_class = TotalAttribute
    strategy = "exact"
    #: Which Redis increments wait in, where the strategy is cached.
    cache = ""
    #: By how much one person alone may adjust it; None: by any amount.
    approve_above: int | None = None

    def declared(self) -> Any:
        """Where the totals of a counter of records stand, and how they are counted."""
        raise NotImplementedError

    def place(self) -> Any:
        """Where the totals of a counter of records stand, and how its slots are made."""
        raise NotImplementedError

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = getattr(model_instance, self.attname)
        if add or hasattr(value, "resolve_expression"):
            return int(value) if isinstance(value, Loaded) else value
        # A column set to itself: the row keeps whatever it has when the statement reaches it.
        return models.F(self.attname)

    def get_db_prep_save(self, value: Any, connection: BaseDatabaseWrapper) -> Any:
        # bulk_update() asks the instance for the attribute, not pre_save(): the type has to live
        # until the placeholder is chosen.
        return value if isinstance(value, Loaded) else super().get_db_prep_save(value, connection)

    def get_placeholder(self, value: Any, compiler: Any, connection: BaseDatabaseWrapper) -> str:
        """The placeholder of one value (Django 5.2 and 6.0)."""
        if isinstance(value, Loaded) and self._is_inside_case(value, compiler):
            # The column is never NULL, so this is the column; the parameter is there to be bound.
            column = connection.ops.quote_name(str(self.column))
            return f"COALESCE({column}, %s)"
        return "%s"

    def _is_inside_case(self, value: Any, compiler: Any) -> bool:
        """Whether the value comes from bulk_update(), which hides the values in a CASE.

        ``update(views=other.views)`` gives the value as it is, and so does a fixture.
        """
        if not isinstance(compiler, SQLUpdateCompiler):
            return False
        query: Any = compiler.query
        mine = [given for field, _, given in query.values if field is self]
        return bool(mine) and all(given is not value for given in mine)

    def get_placeholder_sql(
        self, value: Any, compiler: Any, connection: BaseDatabaseWrapper
    ) -> tuple[str, Any]:
        """The placeholder of one value, and its parameters (Django 6.1)."""
        if hasattr(value, "as_sql"):
            sql, params = compiler.compile(value)
            return sql, params
        return self.get_placeholder(value, compiler, connection), (value,)

    def value_from_object(self, obj: models.Model) -> Any:
        value = super().value_from_object(obj)
        return int(value) if isinstance(value, Loaded) else value


class WideTotalField(TotalField):
    """A total that may be larger than any value: what others make smaller again is not part of it.

    SQLite has no wider integers.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        if connection.vendor == "postgresql":
            return "numeric(40, 0)"
        return super().db_type(connection)

    def from_db_value(self, value: Any, *_: Any) -> int | None:
        return None if value is None else int(value)
