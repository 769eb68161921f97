"""The queryset for models with counter fields."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from asgiref.sync import sync_to_async
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import FieldError
from django.db import models, router
from django.db.models.functions import Cast, Coalesce
from django.db.models.query import ModelIterable

from django_counters import errors, reading, twins
from django_counters.event import Event, Tags, Who, event_of
from django_counters.fields import CounterField, counter_fields
from django_counters.strategies.declaring import MAX_AGE
from django_counters.tables.schema import SLOTS
from django_counters.types import Amount, check_integer
from django_counters.write.chosen import count, field_change
from django_counters.write.records import of_key

_Model = TypeVar("_Model", bound=models.Model)
_PAGE = 500
_VALUE: models.BigIntegerField[int, int] = models.BigIntegerField()

if TYPE_CHECKING:
    from django_counters.adjustments.cases import AdjustedMany, CaseOptions

    _ModelIterable = ModelIterable[Any]
else:
    _ModelIterable = ModelIterable


class CounterQuerySet(models.QuerySet[_Model]):
    """For models with counter fields: ``objects = CounterQuerySet.as_manager()``."""

    _cached_counts: tuple[CounterField, ...] = ()
    _max_age: float | None = None
    #: What the rows are made by before cached values are added.
    _rows_class: type[Any] = ModelIterable

    def with_counts(
        self, *names: str, consistency: str = "exact", max_age: float | None = None
    ) -> Self:
        """Rows that carry the exact values of the named counter fields (of all, without names).

        The values come with the rows, in the same query, and can be filtered and ordered by. Those
        of cached fields come after the rows, for 500 of them in one round trip to Redis and one
        query. So filters, the order and ``values()`` see what has landed in the column. With
        ``consistency="cached"`` they come from Redis alone where the totals there are not older
        than ``max_age`` seconds (5).

        Raises:
            FieldError: a name is not a counter field of the model.
            CounterUnavailable: Redis cannot be asked for exact values.
        """
        fields = self._counter_fields(names)
        clone = self._loading(names or tuple(fields))
        for field in counter_fields(self.model):
            if field.name in (names or fields) and field.name not in clone.query.annotations:
                # annotate() refuses the name of a field; the query itself prefers the annotation,
                # in filters, in the order, and in what is loaded.
                clone.query.add_annotation(exact_value(field), field.name)
        cached = [f for f in counter_fields(self.model) if f.recipe.can.outside]
        clone._cached_counts = tuple(f for f in cached if f.name in (names or fields))
        clone._max_age = _age(consistency, max_age)
        if clone._cached_counts and clone._iterable_class is not _CountedIterable:
            # django-polymorphic has an iterable of its own, which loads instances of children.
            clone._rows_class, clone._iterable_class = clone._iterable_class, _CountedIterable
        return clone

    @twins.alters_data
    def increment(
        self,
        /,
        *,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        **by: Amount,
    ) -> int:
        """Add to counter fields of all records, ``views=1, shares=2``; how many records there are.

        All or nothing, in the caller's transaction. Rows of exact fields are held in the order of
        their primary keys: on PostgreSQL one statement holds and changes them, if the fields stand
        in one table. Slotted fields take a statement for each record; cached ones are counted last,
        at once or when the caller's transaction commits. Takes no token, and is not collected.
        ``at`` and ``tags`` say what all fields are counted by, each of which then has ``per``: a
        field that is called so is counted record by record.

        Raises:
            TypeError: no field is named, or the queryset is a slice or ``distinct(*fields)``.
            NotSupportedError: the queryset is a union or the like.
            FieldError: a name is not a counter field of the model.
            InsufficientCount, CeilingExceeded: a bound would be crossed; the error lists each
                record whose field does not admit it.
            RecordMissing: a record was deleted meanwhile.
            InvalidDelta, InvalidMoment, InvalidTags, UnsupportedSeries, CounterOverflow,
                CounterUnavailable, ReadOnlyDatabase: as for named counters; nothing is counted.
            OutcomeUnknown: as for named counters, or exact counters were changed and cached ones
                were not.
        """
        return self._count("increment", by, 1, event_of(at, tags, who))

    @twins.alters_data
    def decrement(
        self,
        /,
        *,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        **by: Amount,
    ) -> int:
        """Subtract from counter fields of all records; see `increment`."""
        return self._count("decrement", by, -1, event_of(at, tags, who))

    # Not by `twin`: the mypy plugin of Django copies methods of querysets to managers, not names.
    @twins.alters_data
    async def aincrement(
        self,
        /,
        *,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        **by: Amount,
    ) -> int:
        """`increment` for async code."""
        return await sync_to_async(self._count)("increment", by, 1, event_of(at, tags, who))

    @twins.alters_data
    async def adecrement(
        self,
        /,
        *,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        **by: Amount,
    ) -> int:
        """`decrement` for async code."""
        return await sync_to_async(self._count)("decrement", by, -1, event_of(at, tags, who))

    def _count(self, verb: str, by: Mapping[str, Amount], sign: int, event: Event) -> int:
        """Refuse what Django's update() refuses, then count."""
        self._not_support_combined_queries(verb)  # type: ignore[attr-defined]
        if self.query.is_sliced:
            raise TypeError(f"Cannot {verb} a query once a slice has been taken.")
        if self.query.distinct_fields:
            raise TypeError(f"Cannot call {verb}() after .distinct(*fields).")
        if not by:
            raise TypeError(f"{verb}() needs the name of a counter field: {verb}(views=1).")
        fields = self._counter_fields(by)
        deltas = {n: check_integer(sign * check_integer(fields[n].units(g))) for n, g in by.items()}
        named: str | None = getattr(self, "_db", None)
        hints: dict[str, Any] = getattr(self, "_hints", {})
        using = named or router.db_for_write(self.model, **hints)
        changes = [field_change(fields[n], by, using, event) for n, by in deltas.items()]
        self._result_cache = None
        try:
            return count(self, using, changes)
        except errors.CounterError as error:
            for name in deltas:
                fields[name].present_error(error)
            raise

    def _counter_fields(self, names: Iterable[str]) -> dict[str, CounterField]:
        """The counter fields of the model by their names, among which these are."""
        fields = {field.name: field for field in counter_fields(self.model)}
        for name in names:
            if name not in fields:
                known = ", ".join(sorted(fields)) or "none"
                raise FieldError(
                    f"{name!r} is not a counter field of {self.model._meta.label}; known: {known}."
                )
        return fields

    def _clone(self) -> Self:
        clone: Self = super()._clone()  # type: ignore[misc]
        clone._cached_counts, clone._max_age = self._cached_counts, self._max_age
        clone._rows_class = self._rows_class
        return clone

    def _loading(self, names: Iterable[str]) -> Self:
        """The same rows with these columns loaded, even where ``only()`` left them out."""
        clone = self.all()
        deferred, is_defer = clone.query.deferred_loading
        wanted = set(deferred) - set(names) if is_defer else set(deferred) | set(names)
        clone.query.deferred_loading = (frozenset(wanted), is_defer)
        return clone

    @twins.alters_data
    def update(self, **kwargs: Any) -> int:
        """Django's; an expression is about the column, also after `with_counts`."""
        clone = self.all()
        for field in counter_fields(self.model):
            if field.name in kwargs:
                clone.query.annotations.pop(field.name, None)
        return super(CounterQuerySet, clone).update(**kwargs)

    def bulk_create(
        self,
        objs: Iterable[_Model],
        batch_size: int | None = None,
        ignore_conflicts: bool = False,
        update_conflicts: bool = False,
        update_fields: Collection[str] | None = None,
        unique_fields: Collection[str] | None = None,
    ) -> list[_Model]:
        """Django's, but it refuses to overwrite a counter of a row that exists already."""
        update_fields = None if update_fields is None else list(update_fields)
        names = {field.name for field in counter_fields(self.model)} & set(update_fields or ())
        if update_conflicts and names:
            raise FieldError(
                f"bulk_create() would overwrite {', '.join(sorted(names))} with a stale number; "
                "leave it out of update_fields."
            )
        return super().bulk_create(
            objs, batch_size, ignore_conflicts, update_conflicts, update_fields, unique_fields
        )

    @twins.alters_data
    def adjust_many(
        self,
        name: str,
        *,
        to: Mapping[Any, Amount] | None = None,
        by: Mapping[Any, Amount] | None = None,
        **options: Unpack[CaseOptions],
    ) -> AdjustedMany:
        """Adjust one counter field of many records, by their primary keys.

        As `CounterManager.adjust_many`, with its arguments and its errors. Of a decimal field
        ``to`` and ``by`` have amounts, and the report has units. Call it on all rows:
        those of a filtered queryset are not what is adjusted, so it refuses to.
        """
        if self.query.where or self.query.is_sliced:
            raise TypeError("adjust_many() takes primary keys; call it on the manager.")
        named: str | None = getattr(self, "_db", None)
        alias = named or router.db_for_write(self.model)
        to, by = (self._in_units(name, amounts) for amounts in (to, by))
        from django_counters.adjustments.cases import adjust_many, given

        refs = given(to, by, lambda pk: of_key(self.model, name, pk, alias))
        return adjust_many(refs, "by" if to is None else "to", **options)

    def _in_units(self, name: str, amounts: Mapping[Any, Any] | None) -> Mapping[Any, Any] | None:
        """Amounts as the column has them."""
        field = next((field for field in counter_fields(self.model) if field.name == name), None)
        if field is None or not isinstance(amounts, Mapping):
            return amounts
        return {key: field.units(amount) for key, amount in amounts.items()}

    @twins.alters_data
    async def aadjust_many(self, name: str, **asked: Any) -> AdjustedMany:
        """`adjust_many` for async code."""
        return await sync_to_async(self.adjust_many)(name, **asked)


class _CountedIterable(_ModelIterable):
    """Instances with the values of cached fields, page by page."""

    def __iter__(self) -> Iterator[Any]:
        queryset = cast("CounterQuerySet[Any]", self.queryset)
        rows = iter(queryset._rows_class(queryset, self.chunked_fetch, self.chunk_size))
        while page := list(islice(rows, _PAGE)):
            for field in queryset._cached_counts:
                field.load(page, queryset._max_age)
            yield from page


def _age(consistency: str, max_age: float | None) -> float | None:
    if consistency == "exact":
        return None
    if consistency != "cached":
        raise errors.UnsupportedConsistency(
            strategy="cached", consistency=consistency, offered="exact, cached"
        )
    return MAX_AGE if max_age is None else reading.check_age(max_age)


def exact_value(field: CounterField) -> Any:
    """The total in the column and the amount that waits in slots, as an expression."""
    options = field.model._meta
    kinds = ContentType._base_manager.filter(app_label=options.app_label, model=options.model_name)
    waiting = (
        SLOTS.model._base_manager.filter(
            record_type_id=models.Subquery(kinds.values("pk")[:1]),
            record_id=Cast(models.OuterRef(options.pk.attname), models.TextField()),
            name=field.name,
        )
        .order_by()
        .values("name")
        .annotate(waits=models.Sum("count"))
        .values("waits")
    )
    value = models.F(field.name) + Coalesce(models.Subquery(waiting, output_field=_VALUE), 0)
    # Django takes a sum of any integers for one of 32 bits, and answers a comparison with a larger
    # number without asking the database.
    return models.ExpressionWrapper(value, output_field=field.exact_field)
