"""The column that holds a total, written by increments and never by ``save()``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.db import models
from django.db.models import Case, Value
from django.db.models.expressions import Col
from django.db.models.functions import Cast
from django.db.models.query_utils import DeferredAttribute
from django.db.models.signals import post_save

from django_counters.errors import AssignmentIgnored
from django_counters.measure import Measure
from django_counters.types import Counted, Result, Unknown

# -- Tells developers of a number that was assigned to a counter and that ``save()`` did not write.

_ASSIGNED = "counters_assigned"
_PASSED_OVER = "counters_passed_over"
# The warnings told of the lines of each file: as Python's own, which would be kept on its modules.
_warned: dict[str, dict[Any, Any]] = {}


class Assigned(NamedTuple):
    """Where a number was assigned."""

    file: str
    line: int


def note_assigned(instance: models.Model, name: str) -> None:
    """Keep the line that assigned a counter of a saved instance, to be told of when it is saved."""
    frame = sys._getframe(3)
    line = Assigned(frame.f_code.co_filename, frame.f_lineno)
    _keep(instance, _ASSIGNED, {**_kept(instance, _ASSIGNED), name: line})
    # Projects that assign nothing do not pay for a receiver of every save.
    post_save.connect(_tell, dispatch_uid=__name__)


def forget_assigned(instance: models.Model, name: str) -> None:
    """Drop what was noted: the row has the number, or will get it."""
    for kept in (_ASSIGNED, _PASSED_OVER):
        left = {key: line for key, line in _kept(instance, kept).items() if key != name}
        _keep(instance, kept, left)


def save_assigned(instance: models.Model, name: str, *, inserts: bool) -> None:
    """Note that an UPDATE leaves a counter as it is. It may find no row, and an INSERT follows."""
    if _ASSIGNED not in vars(instance._state):
        return
    if inserts:
        forget_assigned(instance, name)
    elif line := _kept(instance, _ASSIGNED).get(name):
        _keep(instance, _PASSED_OVER, {**_kept(instance, _PASSED_OVER), name: line})


def _tell(
    sender: type[models.Model],
    instance: models.Model,
    update_fields: Collection[str] | None = None,
    **_: Any,
) -> None:
    """Receives ``post_save``."""
    passed_over = _kept(instance, _PASSED_OVER)
    # Django itself may have assigned what the row has: that is known by now, too.
    for name in _kept(instance, _ASSIGNED):
        if update_fields is None or name in update_fields:
            forget_assigned(instance, name)
    for name, (file, line) in passed_over.items():
        told = f"{sender._meta.label}.{name} was assigned, and save() does not write it."
        remedy = "Count with increment(), correct it with adjust(), or set it with update()."
        known = _warned.setdefault(file, {})
        warnings.warn_explicit(f"{told} {remedy}", AssignmentIgnored, file, line, registry=known)


def _kept(instance: models.Model, what: str) -> dict[str, Assigned]:
    kept: dict[str, Assigned] = vars(instance._state).get(what, {})
    return kept


def _keep(instance: models.Model, what: str, lines: dict[str, Assigned]) -> None:
    # Never changed where it is: a copy of an instance has the same one.
    if lines or what in vars(instance._state):
        vars(instance._state)[what] = lines


if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.expressions import Combinable

    _BigIntegerField = models.BigIntegerField[int | Combinable, int]
else:
    _BigIntegerField = models.BigIntegerField


# -- The column that holds a total: written by increments, never by ``save()``.


class Loaded(int):
    """The number of a total on an instance: an int that may be stale by the time it is written."""

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)

    def __reduce_ex__(self, protocol: Any) -> tuple[type[int], tuple[int]]:
        # A copy or a pickle is a plain number.
        return self.__reduce__()


class AssignedNumber(int):
    """A number that was assigned to a record after it was loaded: no row has had it."""


def plain(value: Any) -> Any:
    """What an instance keeps of a number: an int, and a `Loaded` where a record's row has it."""
    if isinstance(value, Loaded | Counted):
        return Loaded(value) if hasattr(value, "_instance") else int(value)
    return value


class TotalAttribute(DeferredAttribute):
    """Keeps a plain int on the instance, and hands it out as one that was loaded."""

    field: TotalField

    def __get__(self, instance: models.Model | None, cls: type[models.Model] | None = None) -> Any:
        if instance is None:
            return self
        value = super().__get__(instance, cls)
        return self.hand_out(value, instance) if isinstance(value, int) else value

    def __set__(self, instance: models.Model, value: Any) -> None:
        name = self.field.attname
        if not instance._state.adding and settings.DEBUG:
            self._watch(instance, name, value)
        if isinstance(value, Unknown):
            # The result of a change: the instance keeps its number.
            return
        self._keep(instance, value)

    def _keep(self, instance: models.Model, value: Any) -> None:
        """Set the number of an instance, as an `AssignedNumber` one if its row never had it."""
        name = self.field.attname
        # Django sets `adding` when it has loaded or saved a row.
        if isinstance(value, int) and "adding" in vars(instance._state):
            source = getattr(value, "_instance", None)
            if source is None or source is instance:
                if value == instance.__dict__.get(name):
                    return
                of_row = isinstance(value, Loaded) and source is None
            else:
                # refresh_from_db() assigns the number of another instance of the row.
                of_row = value._field == self.field and source.pk == instance.pk  # type: ignore[attr-defined]
            if not of_row:
                value = AssignedNumber(value)
        instance.__dict__[name] = plain(value)

    def _watch(self, instance: models.Model, name: str, value: Any) -> None:
        """Note an assigned number that differs from the loaded one."""
        present = instance.__dict__.get(name)
        if hasattr(value, "resolve_expression"):
            # It will be written.
            forget_assigned(instance, name)
        elif isinstance(value, Loaded | Result):
            # full_clean() assigns the same again, refresh_from_db() what another instance has,
            # and some code what a change returned.
            if getattr(value, "_instance", None) is not instance:
                forget_assigned(instance, name)
        elif value != present and not hasattr(present, "resolve_expression"):
            note_assigned(instance, name)

    def __delete__(self, instance: models.Model) -> None:
        # As of any field of Django: the next access loads it.
        if self.field.attname not in instance.__dict__:
            raise AttributeError(self.field.attname)
        del instance.__dict__[self.field.attname]

    def hand_out(self, value: int, instance: models.Model) -> Any:  # noqa: ARG002
        return Loaded(value)


class PlainColumn:
    """A field whose column is another one in expressions."""

    #: The column in expressions, and what a copy in another model is.
    plain_class: type[models.Field[Any, Any]] = models.BigIntegerField

    def get_col(self, alias: str, output_field: Any = None) -> Col:
        """The column as one of Django's own integer fields.

        Django combines expressions whose fields are of one class, or of a class that it knows.
        """
        asked = None if output_field == self else output_field
        col: Col = self._plain.get_col(alias, asked)
        return col

    @cached_property
    def _plain(self) -> Any:
        plain: Any = copy(self)
        plain.__class__ = self.plain_class
        return plain


class TotalField(PlainColumn, _BigIntegerField):
    """A BIGINT that an instance inserts with its row and never writes again.

    ``save()``, ``save(update_fields=…)``, ``update_or_create()`` and ``bulk_update()`` leave the
    stored number as it is, with any number on the instance. An expression (``F("views") + 1``) is
    written: the database evaluates it on the present number. So is ``QuerySet.update(views=0)``,
    which says what it does. A raw save, such as ``loaddata``, writes the numbers of the package's
    own tables; a row of a `CounterField` keeps its number.
    """

    descriptor_class = TotalAttribute
    strategy = "exact"
    #: Whether callers have the column's own numbers; else `present` converts them.
    is_whole = True
    #: By how much one person alone may adjust it; None: by any amount.
    approve_above: int | None = None
    #: The measure; None where none is declared.
    measure: Measure | None = None

    def present(self, number: int) -> Any:
        """Return a number of the column as callers have it."""
        return number

    def declared(self) -> Any:
        """Where the totals of a counter of records stand, and how they are counted."""
        raise NotImplementedError

    def place(self) -> Any:
        """Where the totals of a counter of records stand, and how its slots are made."""
        raise NotImplementedError

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = getattr(model_instance, self.attname)
        save_assigned(model_instance, self.attname, inserts=add)
        if add or (hasattr(value, "resolve_expression") and not isinstance(value, Loaded)):
            return int(value) if isinstance(value, Loaded) else value
        # A column set to itself: the row keeps its number at the time of the statement.
        return models.F(self.attname)

    def get_db_prep_save(self, value: Any, connection: BaseDatabaseWrapper) -> Any:
        value = super().get_db_prep_save(value, connection)
        # bulk_update() asks the instance for the attribute, not pre_save(), and hides what it got
        # in a CASE. update(views=…) gives an expression of its own, or the value as it is.
        case = value.get_source_expressions()[0] if isinstance(value, Cast) else value
        if isinstance(case, Case):
            column = self.get_col("")
            for when in case.cases:
                if isinstance(when.result, Value) and _field_of(when.result) is self:
                    when.result = column
        return value

    def value_from_object(self, obj: models.Model) -> Any:
        value = super().value_from_object(obj)
        return int(value) if isinstance(value, Loaded) else value


def _field_of(value: Any) -> Any:
    """The field that a value was given with, if it was."""
    return value._output_field_or_none


class WideTotalField(TotalField):
    """A total that may be larger than any value: decrements that wait elsewhere are not part of it.

    SQLite has no wider integers.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        if connection.vendor != "sqlite":
            return "numeric(40, 0)"
        return super().db_type(connection)

    # A number from there is no integer yet.
    get_col = models.BigIntegerField.get_col

    def from_db_value(self, value: Any, *_: Any) -> int | None:
        return None if value is None else int(value)
