"""Who has counted a record, where its field declares ``once``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connections, models, router

from django_counters.projections.event import Event, Who
from django_counters.read import actors
from django_counters.read.actors import Actor
from django_counters.twins import alters_data, twin
from django_counters.write.actors import Toggled, toggle
from django_counters.write.records import native_of


class CountingActors:
    """The actors who count in the counter of one instance."""

    _field: Any  # a CounterField; said so, its descriptor would hide it from type checkers
    _instance: models.Model

    @alters_data
    def toggle(self, who: Who, *, using: str | None = None) -> Toggled:
        """Count an actor that does not count yet, else take the count back; see `increment`.

        ``has, likes = post.likes.toggle(user)``. The new value is set on the instance.

        Raises:
            UnsupportedActors: the field declares no ``once``.
            InvalidDelta: with a cool-down nothing is taken back.
            UnsavedInstance, RecordMissing: there is no row.
        """
        field, instance = self._field, self._instance
        toggled = toggle(field.ref(instance, using), Event(who=who))
        if toggled.result.value is not None:
            instance.__dict__[field.attname] = toggled.result.value
        return toggled

    def has(self, who: Who, *, using: str | None = None) -> bool:
        """Whether an actor counts: with a cool-down, whether it is not over yet.

        ``Post.likes.has_many(posts, user)`` asks for a page of records at once.
        """
        return bool(has_many(self._field, type(self._instance), [self._instance], who, using))

    def actors(
        self, *, limit: int = 20, before: str | None = None, using: str | None = None
    ) -> list[Actor]:
        """The actors that have counted, the last one first: ``[Actor(who, at)]``.

        ``before``: the ``cursor`` of the last one of the page before.

        Raises:
            UnsupportedActors: the field declares no ``once``.
            InvalidMoment: ``before`` is no cursor.
            ValueError: ``limit`` is no integer from 1 to 1,000.
        """
        alias = _reading(type(self._instance), using)
        place = self._field.declared()
        key = str(self._field._key(self._instance, alias))
        return actors.actors(place.measure, key, limit, before, alias, place.table.label)

    atoggle = twin(toggle)
    ahas = twin(has)
    aactors = twin(actors)


def has_many(
    field: Any, model: type[models.Model], given: Iterable[object], who: Who, using: str | None
) -> set[Any]:
    """The primary keys of those records, or those keys, that this actor has counted."""
    alias = _reading(model, using)
    place = field.declared()
    asked: dict[str, object] = {}
    keys: dict[object, object] = {}
    for one in given:
        if isinstance(one, models.Model):
            asked[str(field._key(one, alias))] = one.pk
        else:
            keys[native_of(model, one, alias)] = one
    asked.update(_by_rows(field, model, keys, alias))
    return actors.has_many(place.measure, asked, who, alias, place.table.label)


def _by_rows(
    field: Any, model: type[models.Model], keys: dict[object, object], alias: str
) -> dict[str, object]:
    """The given keys, by the keys of the rows that have the column."""
    pk: Any = field.model._meta.pk
    own: Any = model._meta.pk
    while own is not pk and getattr(own.remote_field, "parent_link", False):
        own = own.target_field
    if own is pk:
        return {str(native): key for native, key in keys.items()}
    # A child with a key of its own.
    found = model._base_manager.using(alias).filter(pk__in=keys).values_list("pk", pk.attname)
    return {
        str(pk.get_db_prep_value(key, connections[alias])): keys[native_of(model, one, alias)]
        for one, key in found
    }


def _reading(model: type[models.Model], using: str | None) -> str:
    return using or router.db_for_read(model)
