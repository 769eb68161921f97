"""Counters in the rows of the project's own models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from inspect import getattr_static, signature
from typing import TYPE_CHECKING, Any, Self, overload

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connections, models, router
from django.db.models.signals import class_prepared, post_save, pre_save

from django_counters import conf, features, reading, types
from django_counters.errors import CounterError, InitialOutOfBounds, InvalidDelta, UnsavedInstance
from django_counters.fields.values import CounterOf, CounterValue, NotLoaded, note_raw
from django_counters.measure import Measure
from django_counters.registry import in_effect, registry
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.tables import slots
from django_counters.strategies import declaring, spread
from django_counters.tables.total import AssignedNumber, Loaded, TotalAttribute, TotalField
from django_counters.write.changes import Ref
from django_counters.write.records import CounterColumn, can_be_slotted, check_record_id, native_of

if TYPE_CHECKING:
    from django.forms import Field as FormField


# The column.

# What migrations do not name where it is like this. Those of strategies and projections come to it.
_COMMON = {option.key: option.default for option in conf.COMMON}
_OF_DJANGO = signature(models.Field.__init__).parameters.keys()


class BaseCounterField(TotalField):
    """The column of a `CounterField`, without what instances of its model show of it."""

    capacity = types.INT8

    if TYPE_CHECKING:
        db_index: bool

    def __init__(
        self,
        *args: Any,
        strategy: str = "exact",
        floor: int | None = None,
        approve_above: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.strategy = strategy
        self.approve_above = approve_above
        # What strategies and projections declare for fields, as far as it was given.
        known = conf.field_options(strategy, kwargs.keys() - _OF_DJANGO)
        self.options = {name: kwargs.pop(name) for name in known if name in kwargs}
        ceiling = self.options.get("ceiling")
        if app := conf.ceiling_app(ceiling):
            raise ImproperlyConfigured(f"a ceiling of periods needs {app} in INSTALLED_APPS.")
        self.bounds = types.Bounds(floor, conf.value_ceiling(ceiling))
        if "db_default" not in kwargs:
            kwargs.setdefault("default", 0)
        # Django has a flag of the name ``unique``, too: a list of periods would set it.
        unknown = [name for name in kwargs if name not in _OF_DJANGO or type(kwargs[name]) is list]
        for name in unknown:
            if app := conf.absent_option(name, of_field=True):
                raise ImproperlyConfigured(f"{name} needs {app} in INSTALLED_APPS.")
        super().__init__(*args, **kwargs)

    def contribute_to_class(
        self, cls: type[models.Model], name: str, private_only: bool = False
    ) -> None:
        """Add it to a model. A copy of another model's field counts nothing.

        Packages that keep the history of a model copy its fields.
        """
        owner: Any = vars(self).get("model")
        # A child gets a copy of the field of an abstract parent.
        if owner is not None and owner is not cls and not owner._meta.abstract:
            self.__class__ = type(self).plain_class  # type: ignore[assignment]
            for own in set(vars(self)) - set(vars(self.clone())):
                del vars(self)[own]
            self.contribute_to_class(cls, name, private_only)
            return
        super().contribute_to_class(cls, name, private_only)

    def units(self, amount: Any) -> Any:
        """Return the column's number for a caller's number; `present` is its inverse."""
        return amount

    def declared_units(self, amount: Any) -> Any:
        """Return the same for the field's declaration, right or wrong."""
        return amount

    def present_error(self, error: CounterError) -> None:
        """Replace the column's numbers in an error about this field by those of callers."""

    @property
    def exact_field(self) -> models.Field[Any, Any]:
        """The exact value as a field for expressions."""
        return models.BigIntegerField()

    @property
    def non_db_attrs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*super().non_db_attrs, *_COMMON, *conf.field_options(self.strategy, self.options))

    def deconstruct(self) -> tuple[str, str, Any, dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        # Migrations name the package, not the file in it.
        path = path.replace("django_counters.fields.columns", "django_counters.fields")
        options = conf.field_options(self.strategy, self.options).values()
        defaults = {**_COMMON, **{option.name: option.default for option in options}}
        common = {"strategy": self.strategy, "approve_above": self.approve_above}
        declared = {**common, "floor": self.bounds.floor, **self.options}
        kwargs.update({key: value for key, value in declared.items() if value != defaults.get(key)})
        return name, path, args, kwargs

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = super().pre_save(model_instance, add)
        if add and not hasattr(value, "resolve_expression"):
            value = self.get_prep_value(value)
        if not add or not isinstance(value, int):
            return value
        copied = self._is_of_a_row(model_instance)
        if value and self.measure and self.measure.counts_rows:
            if not copied:
                reason = f"{self._label()} counts actors, so it starts at 0"
                raise InvalidDelta(delta=value, reason=reason)
            # The actors stay with the record that they have counted.
            value = model_instance.__dict__[self.attname] = 0
        kept = model_instance.__dict__.get(self.attname)
        if isinstance(kept, AssignedNumber) or not isinstance(kept, int):
            # Its row never had this number or text, so a copy can't have it either.
            copied = False
        if not copied and not self.bounds.hold(value):
            floor, ceiling = self.bounds
            raise InitialOutOfBounds(field=self._label(), value=value, floor=floor, ceiling=ceiling)
        return value

    def _is_of_a_row(self, instance: models.Model) -> bool:
        """Return whether an instance has a row's number: its own, or the one that it copies."""
        # Django sets `adding` when it has loaded or saved a row, and a caller who copies one sets
        # it again. It sets `db` on a new instance too, for a related object.
        return "adding" in vars(instance._state) or isinstance(
            instance.__dict__.get(self.attname), Loaded
        )

    @cached_property
    def validators(self) -> list[Any]:
        """Those of the bounds come first: REST framework takes the first of a kind."""
        floor, ceiling = self.bounds
        lower = [] if floor is None else [MinValueValidator(floor)]
        upper = [] if ceiling is None else [MaxValueValidator(ceiling)]
        return [*lower, *upper, *super().validators]

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        # The value in a row is not written, so the user need not correct it, nor that of a copy.
        if model_instance is None or not self._is_of_a_row(model_instance):
            return super().clean(value, model_instance)
        return value

    def save_form_data(self, instance: models.Model, data: Any) -> None:
        # Without a value of its own a new row takes the default of the database. In a form of one
        # that exists it is what was shown.
        if data is not None:
            super().save_form_data(instance, Loaded(data) if type(data) is int else data)

    def formfield(self, *args: Any, **kwargs: Any) -> FormField | None:
        """Shown, but read-only: a form would send back the number that it showed."""
        return super().formfield(*args, **{"disabled": True, "required": False, **kwargs})

    def ref(self, instance: models.Model, using: str | None) -> Ref:
        """The counter of one instance, to be changed."""
        alias = using or router.db_for_write(type(instance), instance=instance)
        key, measure = self._key(instance, alias), self.measure
        return Ref(self.table, key, self.recipe, self.bounds, alias, measure=measure)

    def read(
        self,
        instance: models.Model,
        consistency: str,
        using: str | None,
        max_age: float | None = None,
    ) -> types.Reading:
        """Read the value of one instance; `CounterValue` is its face."""
        age = declaring.MAX_AGE if max_age is None else reading.check_age(max_age)
        # A replica lags: landed increments would be in neither Redis nor the replica.
        find = router.db_for_write if self.recipe.can.outside else router.db_for_read
        alias = using or find(type(instance), instance=instance)
        strategy = registry.strategy(self.recipe, self.table, alias)
        return strategy.read(self._key(instance, alias), consistency, age)

    def load(self, instances: Sequence[models.Model], max_age: float | None) -> None:
        """Let instances that were loaded together hold the present values."""
        # Where they were loaded from may lag.
        alias = router.db_for_write(type(instances[0]), instance=instances[0])
        keys = {self._key(instance, alias): instance for instance in instances}
        values = registry.strategy(self.recipe, self.table, alias).values(keys, max_age)
        for key, instance in keys.items():
            instance.__dict__[self.attname] = values.get(key, 0)

    def _key(self, instance: models.Model, alias: str) -> Any:
        """What finds the row of an instance."""
        key_field = self.model._meta.pk
        key = getattr(instance, key_field.attname)
        if instance._state.adding or key is None:
            raise UnsavedInstance(key=f"{self._label()}:{key}")
        stored = key_field.get_db_prep_value(key, connections[alias])
        if self.recipe.can.slots or self.measure is not None:
            check_record_id(stored)
        return stored

    def place(self) -> CounterColumn:
        """Where the totals stand, for those who count in slots."""
        slots = spread.SLOTTED if self.recipe.can.slots else spread.SLOTTED_ELSEWHERE
        recipe = slots.recipe(self.options, of_field=True)
        return CounterColumn(self.table, recipe, self.bounds, self.measure)

    def declared(self) -> CounterColumn:
        """Where the totals stand, for those who count as the field declares it."""
        return CounterColumn(self.table, self.recipe, self.bounds, self.measure)

    @cached_property
    def recipe(self) -> declaring.Recipe:
        """The recipe of this field's strategy."""
        declared = conf.field_strategy(self.strategy)
        # A check tells of a strategy that there is not.
        recipe = declared.recipe(self.options, of_field=True) if declared else conf.EXACT
        return in_effect(recipe)

    @property
    def leaves_rows(self) -> bool:
        """Return whether a deleted record would leave something of its counter behind."""
        own = self.recipe.can.slots or self.recipe.can.outside or self.measure
        return bool(own or any(one.keeps_rows(self) for one in features.forgetting()))

    @cached_property
    def measure(self) -> Measure | None:  # type: ignore[override]
        """The measure beside the total; None where none is declared."""
        return conf.measure_of(self._label(), self.options)

    @cached_property
    def table(self) -> Table:
        """Where the totals of this field stand, and where increments of it wait."""
        options = self.model._meta
        return Table(
            name=options.db_table,
            key=str(options.pk.column),
            value=str(self.column),
            pending=slots(self.model, self.name),
            capacity=self.capacity,
            label=self._label(),
        )

    def _label(self) -> str:
        return f"{self.model._meta.label}.{self.name}"


# Checks of it.


def problems(field: BaseCounterField) -> Iterator[checks.CheckMessage]:
    """Yield E010 to E018, E020, E024, E028, E030, E034, E037, W010 and W024 for one field."""
    from django_counters.hints import message_of

    for code, text in _all(field):
        yield message_of(code, text, field)


def _all(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    yield from _strategy(field)
    yield from _bounds(field)
    if field.null:
        yield "E012", "A counter cannot be null: it starts at zero."
    if field.primary_key:
        yield "E013", "A counter cannot be a primary key."
    elif field.db_index or field.unique or field.name in _indexed(field.model):
        yield "W010", "An index on a counter slows down every increment."
    if _is_left_behind(field):
        yield (
            "W024",
            "Its records are deleted in the database (DB_CASCADE), which sends no signals.",
        )
    (limit,) = (one for one in conf.COMMON if one.key == "approve_above")
    for problem in limit._replace(name=limit.key).problems(field.approve_above):
        yield "E024", problem
    yield from _projections(field)
    if len(field.model._meta.pk_fields) > 1:
        yield "E014", "Models with a composite primary key cannot count yet."


def _is_left_behind(field: BaseCounterField) -> bool:
    """Return whether Django 6.1's cascades can leave rows of deleted records behind."""
    cascade = getattr(models, "DB_CASCADE", None)
    if cascade is None or not field.leaves_rows:
        return False
    relations = filter(None, (one.remote_field for one in field.model._meta.fields))
    return any(relation.on_delete is cascade for relation in relations)


def _projections(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    given = conf.projected_options(field.options)
    for projection in conf.projections():
        for problem in projection.problems(**given):
            yield projection.in_fields, problem
        own = (*(option.name for option in projection.options), *projection.takes)
        named = next((name for name in own if given[name] is not None), None)
        # A ceiling of the value is an option there, too, and counts nothing beside it.
        counts = any(projection.make(**given).values())
        if named and counts and not can_be_slotted(field.model):
            problem = f"{named} needs an integer, UUID or text as primary key."
            yield projection.in_fields, problem
    declared = conf.field_strategy(field.strategy)
    if declared is not None:
        yield from conf.conflicts(declared, field.bounds, field.options, of_field=True)
    for name in ("default", "db_default") if field.measure and field.measure.counts_rows else ():
        number = getattr(field, name)
        if number is not models.NOT_PROVIDED and number != 0:
            problem = f"The {name} is {number!r}. Remove it: a count of rows starts at 0."
            yield "E015", problem


def _strategy(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    if not conf.field_strategy(field.strategy):
        guess = conf.other_strategy(field.strategy, conf.field_strategies())
        yield "E010", f"The strategy {field.strategy!r} is unknown.{guess}"
    else:
        strategy = field.recipe.declaration
        for message in conf.unheld(strategy, field.bounds, conf.field_strategies):
            yield "E016", message
    if not field.recipe.can.in_place and not can_be_slotted(field.model):
        yield "E018", f"{field.strategy} needs an integer, UUID or text as primary key."
    known = conf.field_options(field.strategy, field.options)
    for name, given in field.options.items():
        if name not in known:
            # Tests override INSTALLED_APPS, and the field was made before.
            app = conf.absent_option(name, of_field=True) or "its app"
            yield "E062", f"{name} needs {app} in INSTALLED_APPS."
            continue
        option = known[name]
        for problem in option.problems(given):
            yield option.code or "E020", problem
        if given != option.default and (owners := _others_with(name, field.strategy)):
            yield "E020", f"{name} is for {' and '.join(owners)}, not for {field.strategy}."


def _others_with(name: str, strategy: str) -> list[str]:
    """The strategies that have an option, where this one has not."""
    if name in conf.field_options(strategy, ()):
        return []
    known = conf.field_strategies()
    owners = [one for one in known if name in {option.name for option in known[one].fields or ()}]
    return owners if strategy in known else []


def _bounds(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    wrong = list(conf.bounds_problems(*field.bounds))
    for problem in wrong:
        yield "E011", f"Its bounds are wrong: {problem}"
    for name in ("default", "db_default"):
        number = field.declared_units(getattr(field, name))
        if number is models.NOT_PROVIDED or callable(number) or hasattr(number, "as_sql"):
            continue
        if isinstance(number, bool) or not isinstance(number, int):
            yield "E015", f"The {name} {number!r} is no integer."
        elif not wrong and not field.bounds.hold(number):
            yield "E015", f"The {name} {number} is out of its bounds."


def _indexed(model: type[models.Model]) -> list[str]:
    return [name for index in model._meta.indexes for name, _ in index.fields_orders]


# The field, and what a model's class and instances show of it.


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
        model = self.model
        pk = model._meta.pk
        native_of(model, key, router.db_for_write(model))
        instance = model.from_db(None, [pk.attname], [pk.to_python(key)])
        return self.of_class(self.field, instance)

    @property
    def model(self) -> type[models.Model]:
        """Return the model whose counter this is: the field's, or a child of it."""
        return self._heir or self.field.model

    def __get__(self, instance: models.Model | None, cls: type[models.Model] | None = None) -> Any:
        if instance is None and cls not in (None, self.field.model):
            # The same counter, for a child: that may have a key of its own.
            inherited = copy(self)
            inherited._heir = cls
            return inherited
        if instance is None:
            return self
        try:
            return super().__get__(instance, cls)
        except SynchronousOnlyOperation:
            # It was deferred. An attribute cannot be awaited, and who counts need not know it.
            return self.not_loaded_class(self.field, instance)

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
