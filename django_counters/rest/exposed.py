"""The counter fields in the API. Each is named by its model, as in ``blog.Post.views``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models.query import ModelIterable

from django_counters.access import ACTIONS, Access, access_of, access_problems
from django_counters.exceptions import InvalidConfiguration
from django_counters.features import actions
from django_counters.fields import CounterField, counter_fields


@dataclass(frozen=True, slots=True)
class Exposed:
    """One counter field in the API, its access, and its records."""

    field: CounterField
    access: Access
    model: type[models.Model]
    records: models.QuerySet[Any] | None

    @property
    def label(self) -> str:
        """The part of its keys before the colon."""
        return f"{self.model._meta.label}.{self.field.name}"

    def queryset(self) -> models.QuerySet[Any]:
        """The records in the API. Each request needs a new queryset."""
        return (self.model._default_manager if self.records is None else self.records).all()


_exposed: dict[str, Exposed] = {}


def expose(
    model: type[models.Model],
    *names: str,
    read: str | None = None,
    increment: str | None = None,
    decrement: str | None = None,
    adjust: str | None = None,
    history: str | None = None,
    approve: str | None = None,
    max_delta: int | None = None,
    origins: tuple[str, ...] | list[str] = (),
    limit: str | None = None,
    burst: int | None = None,
    who: str | None = None,
    records: models.QuerySet[Any] | None = None,
    **further: str,
) -> None:
    """Add counter fields of a model to the API: ``expose(Post, "views", read="anyone")``.

    The key of such a counter is ``<app>.<Model>.<field>:<primary key>``. The arguments are those of
    the ``API`` option of a namespace; actions that are not named are forbidden. Call it where the
    URLs are; a second call for the same field replaces the first.

    Args:
        names: counter fields.
        records: the records in the API, as in ``Post.objects.filter(published=True)``. All others
            look as if they did not exist. Each request evaluates it again.
        further: actions of other apps, as in ``cheer="authenticated"``.

    Raises:
        InvalidConfiguration: there is no such field, or it has decimal places, an argument is
            invalid, or no record can be looked up in ``records``.
    """
    given: dict[str, Any] = {
        "read": read,
        "history": history,
        "increment": increment,
        "decrement": decrement,
        "adjust": adjust,
        "approve": approve,
        "max_delta": max_delta,
        "origins": origins,
        "limit": limit,
        "burst": burst,
        "who": who,
        **further,
    }
    # Arguments that were not given are left out; a zero or an empty text was given, and is wrong.
    given = {name: value for name, value in given.items() if value not in (None, ())}
    access = _checked(model._meta.label, given)
    _check_records(model, records)
    fields = {field.name: field for field in counter_fields(model)}
    # Expose all or none of them.
    for name in names or ("",):
        if name not in fields:
            problem = f"{model._meta.label} has no counter field {name!r}."
            raise InvalidConfiguration(problem=problem)
        if not fields[name].is_whole:
            problem = f"{model._meta.label}.{name} has decimal places, and the API has integers."
            raise InvalidConfiguration(problem=problem)
    for name in names:
        exposed = Exposed(fields[name], access, model, records)
        _exposed[exposed.label] = exposed


def _check_records(model: type[models.Model], records: Any) -> None:
    """Refuse records of another model, and those that would fail at each request."""
    if records is None:
        return
    problem = ""
    concrete = model._meta.concrete_model
    is_queryset = isinstance(records, models.QuerySet)
    # A child model may have another primary key.
    if not is_queryset or records.model._meta.concrete_model is not concrete:
        problem = f"records are a queryset of {model._meta.label}"
    elif records.query.is_sliced or records.query.combinator:
        problem = "records that are sliced or a union cannot be looked up by their key"
    elif not issubclass(records._iterable_class, ModelIterable):
        problem = "records are instances, not their values"
    elif records.query.select_for_update:
        problem = "records are looked up outside of transactions, where none can be locked"
    if problem:
        raise InvalidConfiguration(problem=f"expose({model._meta.label}): {problem}")


def _checked(label: str, given: dict[str, Any]) -> Access:
    for problem in access_problems(given):
        raise InvalidConfiguration(problem=f"expose({label}): {problem}")
    if not {*ACTIONS, *actions()} & set(given):
        problem = f"expose({label}): say who may do what, as in read='anyone'."
        raise InvalidConfiguration(problem=problem)
    return access_of(given)


def labels_of(owner: str) -> list[str]:
    """The labels under which a field is in the API: that of its model, or of a child or proxy."""
    return [label for label, one in _exposed.items() if one.field.table.label == owner]


def exposed_as(label: str) -> Exposed | None:
    """The field whose keys begin with this label."""
    return _exposed.get(label)
