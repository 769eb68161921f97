"""Counters in the rows of the project's own models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, Self, overload

from django.apps import apps
from django.core import checks
from django.core.exceptions import SynchronousOnlyOperation
from django.db import models, router
from django.db.models.signals import class_prepared, post_save, pre_save

from django_counters.fields.base import BaseCounterField
from django_counters.fields.problems import problems
from django_counters.fields.values import CounterOf, CounterValue, NotLoaded, has_many, note_raw
from django_counters.projections.event import Who
from django_counters.read.series import RecordSeries, series_of_all
from django_counters.tables.total import TotalAttribute
from django_counters.twins import twin
from django_counters.write.records import native_of


class CounterAttribute(TotalAttribute):
    """Keeps a plain int on the instance, and hands it out as one that can count."""

    field: CounterField
    of_class = CounterOf
    not_loaded_class = NotLoaded
    #: Whose it is, where that is another one than the model that declares the field.
    _heir: type[models.Model] | None = None

    def of(self, key: object) -> CounterOf:
        """The counter of the record with a primary key: ``Post.views.of(5).increment()``.

        It counts, reads and adjusts as that of a loaded record does, without loading it: one
        statement, or one round trip to Redis.

        Raises:
            InvalidKey: no record of the model can have that key.
        """
        model = self._heir or self.field.model
        pk = model._meta.pk
        native_of(model, key, router.db_for_write(model))
        instance = model.from_db(None, [pk.attname], [pk.to_python(key)])
        return self.of_class(self.field, instance)

    @property
    def series(self) -> RecordSeries:
        """The counts of all records, or of some: ``Post.views.series.of(posts)``."""
        return series_of_all(self.field, self._heir or self.field.model)

    def has_many(
        self, records: Iterable[object], who: Who, *, using: str | None = None
    ) -> set[Any]:
        """The primary keys of those records that an actor has counted, in one query.

        ``liked = Post.likes.has_many(page, request.user)``, where the field declares ``once``.
        ``records`` are instances, or primary keys.

        Raises:
            UnsupportedActors: the field declares no ``once``.
            InvalidActor: this is no actor.
        """
        return has_many(self.field, self._heir or self.field.model, records, who, using)

    ahas_many = twin(has_many)

    def __get__(self, instance: models.Model | None, cls: type[models.Model] | None = None) -> Any:
        if instance is None:
            return self if cls in (None, self.field.model) else self._of_heir(cls)
        try:
            return super().__get__(instance, cls)
        except SynchronousOnlyOperation:
            # It was deferred. An attribute cannot be awaited, and who counts need not know it.
            return self.not_loaded_class(self.field, instance)

    def _of_heir(self, cls: type[models.Model] | None) -> CounterAttribute:
        """The same counter, for a child: that may have a key of its own."""
        inherited = copy(self)
        inherited._heir = cls
        return inherited

    def hand_out(self, value: int, instance: models.Model) -> Any:
        return CounterValue(value, self.field, instance)


class HeirAttribute:
    """The counter of a child, if something wraps the parent's attribute.

    FieldTracker's wrapper answers for each class that inherits it, so on a child with a key of its
    own ``Child.views.of(key)`` would count the parent's record with that key.
    """

    def __init__(self, field: CounterField, wrapper: Any) -> None:
        self._own: CounterAttribute = field.descriptor_class(field)
        self._wrapper = wrapper

    def __get__(self, instance: models.Model | None, cls: type[models.Model] | None = None) -> Any:
        chosen = self._own if instance is None else self._wrapper
        return chosen.__get__(instance, cls)

    def __set__(self, instance: models.Model, value: Any) -> None:
        self._wrapper.__set__(instance, value)

    def __delete__(self, instance: models.Model) -> None:
        self._wrapper.__delete__(instance)


class CounterField(BaseCounterField):
    """A counter in a column of the model: a BIGINT that starts at zero.

    ``post.views`` is an int, ``post.views.increment()`` counts, ``post.save()`` never overwrites an
    increment, and ``filter``, ``order_by``, ``F`` and ``values`` work as with any integer.

    Args:
        strategy: where increments wait for their rollup. ``"exact"``: nowhere, the column is the
            value. ``"slotted"``: in rows that writers share without waiting for each other; the
            column alone is the rolled-up value, ``with_counts`` and ``read`` give the exact one.
            ``"cached"``: in Redis, until a flush; reads are as with slots.
        cache: which Redis, where it is cached: an alias of ``CACHES``, or a URL.
        on_redis_down: where increments go while it cannot be reached: into the column
            (``"exact"``), or nowhere (``"raise"``).
        timeout: how long to wait for it, in seconds.
        returns: ``"nothing"`` where no change of a cached counter asks for its new value.
        slots: how many such rows a record may have; ``"auto"`` means as many as its writers need.
        floor: the value never falls below it by counting; `InsufficientCount` is raised instead.
        ceiling: the value never rises above it by counting; `CeilingExceeded` is raised instead.
            ``{"month": 10_000}`` is a quota: no more is counted in a month; `QuotaExceeded` is
            raised instead.
        approve_above: by how much one person alone may adjust it; None: by any amount.
        per: periods that increments are counted by, beside the total: ``["hour", "day"]``.
        tags: how many values of each tag are counted apart: ``{"country": 250}``.
        keep: for how many days a period is kept: ``{"hour": 35}``; others for ever.
        unique: periods by which distinct actors are counted: ``["day"]``.
        once: True, where everybody counts once; a time (``"30m"``) where not again before that.
        top: periods of which the records with the largest counts are found at once: ``["week"]``.
        occurrences: periods by which it is counted how often it was changed: ``["day"]``.
    """

    descriptor_class = CounterAttribute

    if TYPE_CHECKING:
        # For editors and type checkers. Strategies declare these options beside themselves.
        def __init__(
            self,
            *args: Any,
            strategy: str = ...,
            floor: int | None = ...,
            ceiling: int | Mapping[str, int] | None = ...,
            approve_above: int | None = ...,
            slots: int | str = ...,
            cache: str = ...,
            on_redis_down: str = ...,
            timeout: float = ...,
            returns: str = ...,
            per: Sequence[str] | None = ...,
            tags: Mapping[str, int] | None = ...,
            keep: Mapping[str, int] | None = ...,
            unique: Sequence[str] | None = ...,
            once: bool | str | None = ...,
            top: Sequence[str] | None = ...,
            occurrences: Sequence[str] | None = ...,
            held_per_actor: int | None = ...,
            held_in_total: int | None = ...,
            hold_minutes: int = ...,
            **kwargs: Any,
        ) -> None: ...

        @overload
        def __get__(self, instance: None, owner: Any) -> CounterAttribute: ...
        @overload
        def __get__(self, instance: models.Model, owner: Any) -> CounterValue: ...
        @overload
        def __get__(self, instance: Any, owner: Any) -> Self: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        return [*super().check(**kwargs), *problems(self)]


class IntegerCounterField(CounterField):
    """A `CounterField` in a 32-bit column, to adopt an existing ``IntegerField`` as it is.

    PostgreSQL rewrites a table whose column becomes a BIGINT. This field leaves it an INTEGER;
    its values end at ±2³¹.
    """

    capacity = (-(2**31), 2**31 - 1)
    plain_class = models.IntegerField

    def get_internal_type(self) -> str:
        return "IntegerField"


class CachedCounterField(CounterField):
    """A `CounterField` that is cached in Redis, and lands in its column every few seconds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"strategy": "cached", **kwargs})

    def deconstruct(self) -> tuple[str, str, Any, dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        # What another field leaves out would make this one cached.
        return name, path, args, {**kwargs, "strategy": self.strategy}


def forget_recipes(*, setting: str, **_: object) -> None:
    """Receives Django's ``setting_changed``: what fields are made of may be something else."""
    if setting == "COUNTERS_CACHED_AS_EXACT":
        for model in apps.get_models(include_auto_created=True):
            for field in counter_fields(model):
                vars(field).pop("recipe", None)


def follow_raw_saves(sender: type[models.Model], **_: Any) -> None:
    """Receives ``class_prepared``."""
    # The models of old migrations save nothing raw.
    if not sender._meta.abstract and sender.__module__ != "__fake__" and counter_fields(sender):
        pre_save.connect(note_raw, sender=sender)
        post_save.connect(note_raw, sender=sender)


def follow_heirs(sender: type[models.Model], **_: Any) -> None:
    """Receives ``class_prepared``."""
    for field in counter_fields(sender):
        found = getattr_static(sender, field.attname)
        if not isinstance(found, CounterAttribute | HeirAttribute):
            setattr(sender, field.attname, HeirAttribute(field, found))


def counter_fields(model: type[models.Model]) -> list[CounterField]:
    """The counter fields of a model, inherited ones too."""
    return [field for field in model._meta.concrete_fields if isinstance(field, CounterField)]


class_prepared.connect(follow_raw_saves)
class_prepared.connect(follow_heirs)
